"""Images of several platforms: which one is taken, whole indexes pushed byte for byte, what does not run here.

Must not: reach any network but loopback.
"""
import http.client
import json
import os
import subprocess

from registry_server import put_blob, put_manifest
from registry_test import RegistryTest
from slipway_test import Dir, File, Layout, digest_of, host_architecture, main, make_tar, require_program, run
from small_root import make_root

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
HOST = host_architecture()
OTHER = "arm64" if HOST == "amd64" else "amd64"
PLATFORMS = [(OTHER, ""), (HOST, ""), ("arm", "v6"), ("s390x", "")]


class PlatformTest(RegistryTest):
    def many(self, tag="v1", name="many", platforms=PLATFORMS, archive=False):
        """A layout whose tag is an index of images, each with a file that says for what it is, and an attestation."""
        layout = Layout(self.path(name))
        entries = []
        for architecture, variant in platforms:
            platform = {"architecture": architecture, "os": "linux", **({"variant": variant} if variant else {})}
            descriptor = layout.add_image([[Dir("etc"), File("etc/platform", architecture + variant)]], None, platform=platform)
            entries.append(descriptor)
        layout.manifests = []
        statement = layout.add_blob(b'{"predicateType":"x"}', "application/vnd.in-toto+json")
        attestation = {"schemaVersion": 2, "mediaType": MANIFEST, "layers": [statement],
                       "config": layout.add_blob(b'{"architecture":"unknown","os":"unknown"}', "application/vnd.oci.image.config.v1+json")}
        entries.append({**layout.add_blob(json.dumps(attestation, indent=1).encode(), MANIFEST),
                        "platform": {"architecture": "unknown", "os": "unknown"}})
        # Not as any program of ours would write it: these bytes have to stay.
        index = json.dumps({"manifests": entries, "schemaVersion": 2, "mediaType": INDEX, "annotations": {"b": "1", "a": "2"}}, indent=3)
        self.index = {**layout.add_blob(index.encode(), INDEX), "annotations": {"org.opencontainers.image.ref.name": tag}}
        self.entries = entries
        layout.manifests = [self.index]
        layout.write_index()
        if archive:
            subprocess.run(["tar", "-cf", self.path(name + ".tar"), "-C", layout.directory, "."], check=True)
        return layout.directory

    def digest_for(self, architecture):
        return next(e["digest"] for e in self.entries if e["platform"]["architecture"] == architecture)

    def pushed(self, name="lab/many:v1"):
        layout = self.many()
        told = self.assert_succeeds(self.slipway("push", "--json", "--all-platforms", f"oci:{layout}:v1", f"{self.registry.host}/{name}")).json()
        self.assertEqual(told["manifest_digest"], self.index["digest"])
        return f"{self.registry.host}/{name}"

    def in_registry(self, name, reference):
        connection = http.client.HTTPConnection(self.registry.host, timeout=30)
        connection.request("GET", f"/v2/{name}/manifests/{reference}", headers={"Accept": f"{INDEX}, {MANIFEST}"})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        self.assertEqual(response.status, 200, data)
        return data

    def platform_in(self, source, *options):
        self.assert_succeeds(self.slipway("convert", *options, source, "out"))
        with open(self.path("out/etc/platform")) as file:
            text = file.read()
        subprocess.run(["rm", "-r", self.path("out")], check=True)
        return text


class Push(PlatformTest):
    def test_the_whole_index_byte_for_byte(self):
        image = self.pushed()
        with open(os.path.join(self.path("many"), "blobs/sha256", self.index["digest"][7:]), "rb") as file:
            self.assertEqual(self.in_registry("lab/many", "v1"), file.read())
        for entry in self.entries:
            self.assertEqual(digest_of(self.in_registry("lab/many", entry["digest"])), entry["digest"])
        skopeo = run([require_program("skopeo"), "copy", "--all", "--insecure-policy", "--src-tls-verify=false", f"docker://{image}",
                      f"oci:{self.path('fetched')}:v1"], env=self.env)
        self.assert_succeeds(skopeo)
        blobs = lambda name: sorted(os.listdir(self.path(name + "/blobs/sha256")))
        self.assertEqual(blobs("fetched"), blobs("many"))
        again = self.slipway("push", "--json", "--all-platforms", f"oci:{self.path('fetched')}:v1", image).json()
        self.assertEqual(again, {"manifest_digest": self.index["digest"], "signatures": 0, "uploaded_bytes": 0})

    def test_from_an_archive(self):
        self.many(archive=True)
        for scheme in ("oci-archive:", ""):
            for tag in (":v1", "") if scheme else ("",):
                source = f"{scheme}{self.path('many.tar')}{tag}"
                with self.subTest(source):
                    told = self.slipway("push", "--json", "--all-platforms", source, f"{self.registry.host}/lab/{len(source)}:v1").json()
                    self.assertEqual(told["manifest_digest"], self.index["digest"])

    def test_images_side_by_side_in_the_layouts_own_index(self):
        layout = Layout(self.path("flat"))
        for architecture in (HOST, OTHER):
            layout.add_image([[Dir("etc"), File("etc/platform", architecture)]], "v1", platform={"architecture": architecture, "os": "linux"})
        told = self.slipway("push", "--json", "--all-platforms", f"oci:{layout.directory}", f"{self.registry.host}/lab/flat:v1").json()
        with open(os.path.join(layout.directory, "index.json"), "rb") as file:
            self.assertEqual(told["manifest_digest"], digest_of(file.read()))
        self.assertEqual(self.platform_in(f"docker://{self.registry.host}/lab/flat:v1", "--platform", OTHER), OTHER)

    def test_one_of_them(self):
        layout = self.many()
        for options, architecture in (((), HOST), (("--platform", f"linux/{OTHER}"), OTHER)):
            told = self.slipway("push", "--json", *options, f"oci:{layout}", f"{self.registry.host}/lab/one:v1").json()
            self.assertEqual(told["manifest_digest"], self.digest_for(architecture))
            self.assertEqual(json.loads(self.in_registry("lab/one", "v1"))["mediaType"], MANIFEST)

    def test_what_is_wrong(self):
        layout, host = self.many(), self.registry.host
        push = lambda *arguments: self.slipway("push", *arguments, f"{host}/lab/wrong:v1")
        self.assert_fails(push("--all-platforms", f"oci:{layout}:v2"), 'no image with the tag "v2"', "tags there: v1")
        self.assert_fails(push("--platform", "linux/mips", f"oci:{layout}"), "no image for linux/mips", f"linux/{OTHER}", "try: choose one: --platform")
        self.assert_fails(push("--platform", "a/b/c/d", f"oci:{layout}"), '"a/b/c/d" is no platform', "try: write OS/ARCH")
        self.assert_fails(push("--all-platforms", "--platform", "linux/arm64", f"oci:{layout}"), "excludes")
        self.write("dir/file", "x")
        self.assert_fails(push("--all-platforms", "./dir"), "holds no images of several platforms", "requested by: --all-platforms")
        os.unlink(os.path.join(layout, "blobs/sha256", self.digest_for(OTHER)[7:]))
        self.assert_fails(push("--all-platforms", f"oci:{layout}"), self.digest_for(OTHER))
        self.assert_fails(self.slipway("pull", f"{host}/lab/wrong:v1"), "has no image")  # nothing was named


class Choice(PlatformTest):
    def test_pull_and_its_names(self):
        image = self.pushed()
        stored = lambda name: {i["name"]: i for i in self.slipway("images", "--json").json()}[name]
        self.pull(image)
        self.assertEqual(stored(image)["architecture"], HOST)
        for text in (f"linux/{OTHER}", OTHER, "Linux/" + {"arm64": "aarch64", "amd64": "x86_64"}[OTHER]):
            told = self.pull("--json", "--platform", text, image).json()
            self.assertEqual(told["manifest_digest"], self.digest_for(OTHER))
            self.assertEqual(stored(image)["architecture"], OTHER)  # it takes the tag's place, as with podman
            self.pull(image)
            self.assertEqual(stored(image)["architecture"], HOST)
        self.pull("--platform", OTHER, "-t", "other", image)
        self.assertEqual((stored("other:latest")["architecture"], stored(image)["architecture"]), (OTHER, HOST))
        self.check_blobs()

    def test_variants(self):
        image = self.pushed()
        source = f"docker://{image}"
        for text in ("linux/arm/v6", "linux/arm/v7", "linux/arm", "arm/v7", "linux/armhf", "linux/armel"):
            with self.subTest(text):
                if text == "arm/v7":  # two words are OS and architecture
                    self.assert_fails(self.slipway("convert", "--platform", text, source, "out"), "no image for arm/v7")
                else:
                    self.assertEqual(self.platform_in(source, "--platform", text), "armv6")
        self.assert_fails(self.slipway("pull", "--platform", "linux/arm/v5", image), "no image for linux/arm/v5", "linux/arm/v6")
        self.assertEqual(self.platform_in(source, "--platform", "linux/arm64/v8" if OTHER == "arm64" else "linux/amd64/v2"), OTHER)

    def test_every_kind_of_source(self):
        layout = self.many(archive=True)
        image = self.pushed()
        for source in (f"oci:{layout}", f"oci:{layout}:v1", f"oci-archive:{self.path('many.tar')}:v1", self.path("many.tar"), f"docker://{image}",
                       f"docker://{image.rsplit(':', 1)[0]}@{self.index['digest']}"):
            with self.subTest(source):
                self.assertEqual(self.platform_in(source), HOST)
                self.assertEqual(self.platform_in(source, "--platform", OTHER), OTHER)
                self.assert_fails(self.slipway("convert", "--platform", "linux/mips", source, "out"), "no image for linux/mips", "it has: ",
                                  f"linux/{OTHER}", "linux/s390x", "try: choose one: --platform")

    def test_an_image_of_another_platform_is_not_taken_for_it(self):
        """One image, no index: its config says for what it is."""
        layout = self.make_oci_layout([[Dir("etc"), File("etc/platform", "x")]])
        self.skopeo_push(layout, "lab/single:v1")
        image = f"{self.registry.host}/lab/single:v1"
        self.pull("--platform", HOST, image)
        self.assert_succeeds(self.slipway("convert", f"oci:{layout}", "docker-archive:single.tar:single"))
        for source in (f"docker://{image}", image, f"oci:{layout}", "docker-archive:single.tar"):
            self.assert_fails(self.slipway("convert", "--platform", OTHER, source, "out"), f"is an image for linux/{HOST}, not for linux/{OTHER}",
                              "requested by: --platform", "try: leave --platform out")
        self.assert_fails(self.slipway("pull", "--platform", OTHER, image), f"not for linux/{OTHER}")

    def test_a_digest_of_an_index_in_the_store_is_of_one_platform(self):
        image = self.pushed().rsplit(":", 1)[0] + "@" + self.index["digest"]
        self.pull("--platform", OTHER, image)
        self.assertEqual(self.platform_in(f"docker://{image}"), HOST)
        self.assertEqual(self.platform_in(f"docker://{image}", "--platform", OTHER), OTHER)

    def test_variants_below_one_digest(self):
        layout = self.many(platforms=[(HOST, ""), ("arm", "v7"), ("arm", "v6")])
        self.slipway("push", "--all-platforms", f"oci:{layout}", f"{self.registry.host}/lab/many:v1")
        image = f"{self.registry.host}/lab/many@{self.index['digest']}"
        for variant, at in (("v7", 1), ("v6", 2), ("v7", 1), ("v6", 2), ("v8", 1)):
            told = self.assert_succeeds(self.slipway("pull", "--json", "--platform", f"linux/arm/{variant}", image)).json()
            self.assertEqual(told["manifest_digest"], self.entries[at]["digest"], variant)
        for variant in ("v7", "v6", "v7"):  # these ask the registry only where the store's will not do
            self.assertEqual(self.platform_in(f"docker://{image}", "--platform", f"linux/arm/{variant}"), "arm" + variant)

    def test_one_image_of_a_variant(self):
        layout = Layout(self.path("single"))
        layout.add_image([[Dir("etc"), File("etc/platform", "v7")]], "v1", platform={"architecture": "arm", "os": "linux", "variant": "v7"})
        image = f"{self.registry.host}/lab/single:v1"
        self.assert_succeeds(self.slipway("push", f"oci:{layout.directory}", image))
        self.assertEqual(json.loads(self.in_registry("lab/single", "v1"))["mediaType"], MANIFEST)
        refused = ("is an image for linux/arm/v7, not for linux/arm/v6", "requested by: --platform")
        self.assert_fails(self.slipway("pull", "--platform", "linux/arm/v6", image), *refused)
        self.assertEqual(self.blobs(), [])
        for text in ("linux/arm/v8", "linux/arm/v7", "linux/arm"):
            self.pull("--platform", text, image)
        self.assert_fails(self.slipway("convert", "--platform", "linux/arm/v6", image, "out"), *refused)
        # Through a file that is one tree the variant is kept.
        self.assert_succeeds(self.slipway("convert", "--platform", "linux/arm/v7", image, "one.sqfs"))
        config = self.assert_succeeds(self.slipway("inspect", "--json", self.path("one.sqfs"))).json()["config"]
        self.assertEqual((config["architecture"], config["variant"]), ("arm", "v7"))

    def test_the_only_image_of_an_index(self):
        """It is taken for no platform but its own."""
        layout = self.many(platforms=[("arm", "v7")])
        image = f"{self.registry.host}/lab/arm:v1"
        self.assert_succeeds(self.slipway("push", "--all-platforms", f"oci:{layout}", image))
        for arguments in (("pull", image), ("convert", f"oci:{layout}", "out")):
            self.assert_fails(self.slipway(*arguments), f"no image for linux/{HOST}", "it has: linux/arm/v7", "try: choose one: --platform linux/arm/v7")
        self.assertEqual(self.blobs(), [])
        self.pull("--platform", "linux/arm/v7", image)

    def test_an_artifact_in_an_index_is_no_image_of_this_machine(self):
        put = lambda tag, document, kind: put_manifest(self.registry.host, "lab/mixed", tag, document, kind)
        for platforms in ([("arm", "v7")], [("arm", "v7"), ("s390x", "")]):
            layout = self.many(name=f"mixed{len(platforms)}", platforms=platforms)
            self.assert_succeeds(self.slipway("push", "--all-platforms", f"oci:{layout}", f"{self.registry.host}/lab/mixed:images"))
            config = {"mediaType": "application/vnd.oci.empty.v1+json", "size": 2,
                      "digest": put_blob(self.registry.host, "lab/mixed", b"{}")}
            artifact = {"mediaType": MANIFEST, "artifactType": "application/vnd.example", "digest": put(
                "artifact", {"schemaVersion": 2, "mediaType": MANIFEST, "artifactType": "application/vnd.example", "config": config,
                             "layers": [config]}, MANIFEST)}
            artifact["size"] = len(self.in_registry("lab/mixed", "artifact"))
            put("v1", {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*self.entries[:-1], artifact]}, INDEX)
            shown = self.assert_succeeds(self.slipway("inspect", f"docker://{self.registry.host}/lab/mixed:v1")).stdout
            self.assertIn("linux/arm/v7", shown)
            self.assertIn("no image for this machine", shown)

    def test_inspect_lists_them(self):
        image = self.pushed()
        facts = self.assert_succeeds(self.slipway("inspect", "--json", f"docker://{image}")).json()
        listed = [(p["platform"], p["manifest_digest"]) for p in facts["platforms"]]
        self.assertEqual(listed, [(f"linux/{a}" + (f"/{v}" if v else ""), self.digest_for(a)) for a, v in PLATFORMS])
        self.assertEqual(facts["index_digest"], self.index["digest"])
        self.assertEqual(facts["config"]["architecture"], HOST)
        other = self.slipway("inspect", "--json", "--platform", OTHER, f"docker://{image}").json()
        self.assertEqual((other["config"]["architecture"], other["manifest_digest"]), (OTHER, self.digest_for(OTHER)))
        self.assertIn("linux/arm/v6", self.assert_succeeds(self.slipway("inspect", f"docker://{image}")).stdout)
        self.assertEqual(self.blobs(), [])
        # An index without an image for this machine is no error, where one only looks.
        layout = self.many(name="foreign", platforms=[(OTHER, ""), ("s390x", "")])
        self.slipway("push", "--all-platforms", f"oci:{layout}", f"{self.registry.host}/lab/foreign:v1")
        result = self.assert_succeeds(self.slipway("inspect", f"docker://{self.registry.host}/lab/foreign:v1"))
        self.assertIn("no image for this machine", result.stdout)
        self.assert_fails(self.slipway("pull", f"{self.registry.host}/lab/foreign:v1"), f"no image for linux/{HOST}", "linux/s390x")


class Foreign(PlatformTest):
    """What cannot be executed here is refused before the start."""

    def test_every_form_of_an_image(self):
        make_root(self.path("root"))
        tar = subprocess.run(["tar", "-c", "-C", self.path("root"), "."], stdout=subprocess.PIPE, check=True).stdout
        layout = Layout(self.path("layout"))
        layout.add_image([tar], "v1", platform={"architecture": OTHER, "os": "linux"})
        source = f"oci:{layout.directory}"
        image = f"{self.registry.host}/lab/foreign:v1"
        self.assert_succeeds(self.slipway("push", source, image))
        for target in ("file.sqfs", "file.sif", "tree", "store:foreign"):
            self.assert_succeeds(self.slipway("convert", source, target))
        self.assert_succeeds(self.slipway("push", "--artifact", "file.sqfs", f"{self.registry.host}/lab/file:v1"))
        for name in (source, "file.sqfs", "file.sif", "./tree", "foreign", f"docker://{image}", f"docker://{self.registry.host}/lab/file:v1"):
            with self.subTest(name):
                self.assert_fails(self.slipway("run", name, "--", "true"), f"is an image for {OTHER}, and this machine is {HOST}", "try: build or pull")


if __name__ == "__main__":
    main()
