"""Artifacts in registries: datasets and squashfs images as files, other tools' artifacts, beside skopeo.

Must not: reach any network but loopback.
"""
import base64
import http.client
import json
import os
import signal
import subprocess
import time

from registry_server import Answer, put_blob, put_manifest
from registry_test import RegistryTest
from sid_root import sid_program
from sif_file import partition, write_sif
from slipway_test import Dir, File, digest_of, main, program, require_program, run
from small_root import make_root

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
EMPTY = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": digest_of(b"{}"), "size": 2}
DATASET = "application/vnd.slipway.dataset.v1"
IMAGE = "application/vnd.slipway.image.v1"
TITLE = "org.opencontainers.image.title"


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


class ArtifactTest(RegistryTest):
    def make_pack(self, name="digits.sqfs", *options, size=200_000):
        """A data pack; returns its path."""
        self.write(f"of-{name}/one", os.urandom(size))
        self.write(f"of-{name}/more/two", "second file")
        about = options or ("--name", "digits", "--data-version", "2", "--license", "CC-BY-4.0",
                            "--source", "https://example.org/digits", "--description", "ten of them")
        self.assert_succeeds(self.slipway("pack", f"of-{name}", "-o", name, *about))
        return self.path(name)

    def make_image(self, name="root.sqfs", *options, architecture=None):
        """A squashfs image that runs; returns its path."""
        if not os.path.isdir(self.path("root")):
            make_root(self.path("root"))
        tar = subprocess.run(["tar", "-c", "-C", self.path("root"), "."], stdout=subprocess.PIPE, check=True).stdout
        layout = self.make_oci_layout([tar], config={"Cmd": ["cat", "/etc/image"], "Labels": {
            "org.opencontainers.image.version": "7", "lab": "x"}}, name="layout-" + name)
        self.assert_succeeds(self.slipway("convert", f"oci:{layout}", name, *options))
        return self.path(name)

    def push(self, *arguments, **more):
        return self.assert_succeeds(self.slipway("push", "--json", *arguments, **more)).json()

    def names(self):
        return {image["name"]: image for image in self.assert_succeeds(self.slipway("images", "--json")).json()}

    def manifest(self, name, tag):
        """The manifest as the registry has it: (document, digest)."""
        connection = http.client.HTTPConnection(self.registry.host, timeout=30)
        connection.request("GET", f"/v2/{name}/manifests/{tag}", headers={"Accept": MANIFEST})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        self.assertEqual(response.status, 200, data)
        return json.loads(data), digest_of(data)

    def put_artifact(self, name, files, tag="v1", *, config=None, layer_type="application/octet-stream", **members):
        """Put an artifact as oras does; `files` are (title or None, bytes). Returns the manifest's digest."""
        layers = []
        for title, data in files:
            layers.append({"mediaType": layer_type, "digest": put_blob(self.registry.host, name, data), "size": len(data)})
            if title is not None:
                layers[-1]["annotations"] = {TITLE: title}
        put_blob(self.registry.host, name, b"{}")
        return put_manifest(self.registry.host, name, tag, {"schemaVersion": 2, "mediaType": MANIFEST,
                                                            "config": config or EMPTY, "layers": layers, **members}, MANIFEST)


class Datasets(ArtifactTest):
    def test_a_pack_is_pushed_as_it_is(self):
        pack = self.make_pack()
        told = self.push("digits.sqfs", f"{self.registry.host}/data/digits:v1")
        self.assertEqual(told["uploaded_bytes"], os.path.getsize(pack) + 2)
        manifest, digest = self.manifest("data/digits", "v1")
        self.assertEqual(told["manifest_digest"], digest)
        self.assertEqual(manifest, {
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": DATASET, "config": EMPTY,
            "layers": [{"mediaType": "application/vnd.squashfs", "digest": digest_of(bytes_of(pack)), "size": os.path.getsize(pack),
                        "annotations": {TITLE: "digits.sqfs"}}],
            "annotations": {TITLE: "digits", "org.opencontainers.image.version": "2", "org.opencontainers.image.licenses": "CC-BY-4.0",
                            "org.opencontainers.image.source": "https://example.org/digits",
                            "org.opencontainers.image.description": "ten of them"}})
        # The same file, the same manifest; and nothing is sent twice.
        again = self.push(pack, f"{self.registry.host}/data/digits:v2")
        self.assertEqual(again, {"manifest_digest": digest, "signatures": 0, "uploaded_bytes": 0})

    def test_pulled_into_the_store_and_shown_in_a_container(self):
        pack, image = self.make_pack(), self.make_image()
        name = f"{self.registry.host}/data/digits:v1"
        self.push(pack, name)
        os.unlink(pack)
        told = self.pull("--json", name).json()
        self.assertEqual((told["name"], told["kind"], told["artifact_type"]), (name, "dataset", DATASET))
        self.assertEqual(self.pull("--json", name).json()["downloaded_bytes"], 0)
        self.check_blobs()
        self.pull("-t", "mine", name)
        self.assertEqual(sorted(self.names()), sorted([name, "mine:latest"]))
        self.assertEqual({(i["kind"], i["artifact_type"], i["layers"]) for i in self.names().values()}, {("dataset", DATASET, 1)})
        self.assertIn("dataset", self.slipway("images").stdout)
        script = "cd /data && sha256sum -c .slipway/SHA256SUMS && grep -q digits .slipway/pack.json"
        for source in (name, "mine", "mine:latest", f"docker://{name}"):
            with self.subTest(source):
                result = self.assert_succeeds(self.slipway("run", "--data", f"{source}:/data:noexec", image, "--", "sh", "-c", script))
                self.assertEqual(result.stdout.count(": OK\n"), 2, result.stdout)

    def test_data_by_reference_is_pulled_once_and_needs_no_network_then(self):
        image = self.make_image()
        self.push(self.make_pack(), f"{self.registry.host}/data/digits:v1")
        proxy = self.proxy()
        arguments = ["run", "--data", f"docker://{proxy.host}/data/digits:v1:/data", image, "--", "cat", "/data/more/two"]
        self.assertEqual(self.assert_succeeds(self.slipway(*arguments)).stdout, "second file")
        asked = len(proxy.paths())
        self.assertEqual(self.assert_succeeds(self.slipway(*arguments)).stdout, "second file")
        self.assertEqual(proxy.paths()[asked:], ["/v2/data/digits/manifests/v1"])
        proxy.stop()
        result = self.assert_succeeds(self.slipway(*arguments))
        self.assertIn("as it was pulled before", result.stderr)

    def test_what_is_no_data(self):
        image = self.make_image()
        self.push_small("lab/small:v1")
        host = self.registry.host
        self.put_artifact("lab/chart", [("chart.tgz", b"x")], artifactType="application/vnd.example.chart")
        small = f"docker://{host}/lab/small:v1"
        run_with = lambda data: self.slipway("run", "--data", data, image, "--", "true")
        self.assert_fails(run_with(f"{small}:/data"), "is an image of layers, no data pack", "requested by: --data, argument 1",
                          "try: make one file of it: slipway convert")
        self.assert_fails(run_with(f"docker://{host}/lab/chart:v1:/data"), '"application/vnd.example.chart"', "not an image", '"chart.tgz"')
        self.assert_fails(run_with(f"docker://{host}/lab/none:v1:/data"), "has no image", "requested by: --data, argument 1")
        self.assert_fails(run_with("nosuch:/data"), 'there is no image "nosuch:latest" in the store', "requested by: --data")
        self.assert_fails(run_with(f"docker://{host}/lab/small:v1"), "does not say where to show", "docker://REF")
        self.assert_fails(run_with("mine:v1"), "the destination is not absolute")
        self.assert_succeeds(run_with("nosuch:/data:optional"))
        self.assert_succeeds(run_with(f"docker://{host}/lab/none:v1:/data:optional"))

    def test_what_is_no_data_is_refused_before_it_is_fetched(self):
        image, proxy = self.make_image(), self.proxy()
        layers = self.layer_digests(self.push_small("lab/small:v1"))
        sif = b"no SIF either" * 100
        self.put_artifact("lab/sif", [("image.sif", sif)])
        for name, text in (("small", "is an image of layers, no data pack"), ("sif", '"image.sif"')):
            self.assert_fails(self.slipway("run", "--data", f"docker://{proxy.host}/lab/{name}:v1:/data", image, "--", "true"), text,
                              "requested by: --data, argument 1")
        for digest in (*layers, digest_of(sif)):
            self.assertFalse([path for path in proxy.paths() if digest in path])
        self.assertEqual(self.names(), {})

    def test_a_dataset_does_not_run(self):
        name = f"{self.registry.host}/data/digits:v1"
        self.push(self.make_pack(), name)
        for source in (f"docker://{name}", name):
            self.assert_fails(self.slipway("run", source, "--", "true"), DATASET, "not an image", f"try: show it in a container: slipway run "
                              f"--data {source}:/data IMAGE")
            self.pull(name)
        self.assert_fails(self.slipway("build", "-t", "x", self.context(f"FROM docker://{name}\n")), "is an artifact of type")

    def context(self, text):
        return os.path.dirname(self.write("context/Dockerfile", text))

    def test_listed_shown_removed_collected(self):
        pack = self.make_pack()
        name = f"{self.registry.host}/data/digits:v1"
        self.push(pack, name)
        facts = self.assert_succeeds(self.slipway("inspect", "--json", f"docker://{name}")).json()
        self.assertEqual(self.blobs(), [])  # nothing was fetched
        self.assertEqual((facts["artifact_kind"], facts["artifact_type"]), ("dataset", DATASET))
        self.assertEqual(facts["annotations"]["org.opencontainers.image.licenses"], "CC-BY-4.0")
        self.assertEqual(facts["files"], [{"title": "digits.sqfs", "digest": digest_of(bytes_of(pack)),
                                           "size_bytes": os.path.getsize(pack), "media_type": "application/vnd.squashfs"}])
        self.pull(name)
        stored = self.assert_succeeds(self.slipway("inspect", "--json", name)).json()
        self.assertEqual(stored["files"], facts["files"])
        self.assertEqual(stored["compressor"], "zstd")
        self.assertIn("CC-BY-4.0", self.assert_succeeds(self.slipway("inspect", name)).stdout)
        self.assert_succeeds(self.slipway("gc"))
        self.assertEqual(len(self.blobs()), 3)  # manifest, config, file
        self.check_blobs()
        self.assert_succeeds(self.slipway("rmi", name))
        self.assertEqual((self.blobs(), self.names()), ([], {}))

    def test_a_stored_dataset_is_pushed_on_by_a_mount(self):
        self.push(self.make_pack(), f"{self.registry.host}/data/digits:v1")
        proxy = self.proxy()
        self.pull(f"{proxy.host}/data/digits:v1")
        told = self.push(f"{proxy.host}/data/digits:v1", f"{proxy.host}/other/digits:v1")
        self.assertEqual(told["uploaded_bytes"], 2)  # the empty config
        self.assertTrue(any("from=data%2Fdigits" in path for path in proxy.paths("POST")))
        self.assertEqual(self.manifest("other/digits", "v1"), self.manifest("data/digits", "v1"))

    def test_an_image_takes_the_name_of_an_artifact_and_back(self):
        name = f"{self.registry.host}/data/digits:v1"
        pack = self.make_pack()
        for _ in range(2):
            self.push(pack, name)
            self.pull(name)
            self.assertEqual(self.names()[name]["kind"], "dataset")
            self.push_small("data/digits:v1")
            self.pull(name)
            self.assertEqual(self.names()[name]["kind"], "image")
            self.check_blobs()


class Files(ArtifactTest):
    """pull --output"""

    def test_a_file(self):
        pack = self.make_pack()
        name = f"{self.registry.host}/data/digits:v1"
        self.push(pack, name)
        told = self.pull("--json", name, "-o", "got.sqfs").json()
        self.assertEqual(told["files"], ["got.sqfs"])
        self.assertEqual(bytes_of(self.path("got.sqfs")), bytes_of(pack))
        self.assertEqual((self.blobs(), self.names()), ([], {}))  # the store keeps what it was told to keep
        self.write("got.sqfs", "older")
        self.pull(name, "-o", "got.sqfs", "-t", "kept")
        self.assertEqual(bytes_of(self.path("got.sqfs")), bytes_of(pack))
        self.assertEqual(list(self.names()), ["kept:latest"])
        self.assertEqual(self.pull("--json", name, "-o", "again.sqfs").json()["downloaded_bytes"], len(json.dumps(
            self.manifest("data/digits", "v1")[0], separators=(",", ":"))))  # the manifest is asked for, the file is there
        self.assert_succeeds(self.slipway("run", "--data", "kept:/data", self.make_image(), "--", "cat", "/data/more/two"))

    def test_into_a_directory(self):
        pack = self.make_pack()
        name = f"{self.registry.host}/data/digits:v1"
        self.push(pack, name)
        os.mkdir(self.path("there"))
        self.pull(name, "-o", "there")
        self.pull(name, "-o", "made/")
        for directory in ("there", "made"):
            self.assertEqual(os.listdir(self.path(directory)), ["digits.sqfs"])
            self.assertEqual(bytes_of(self.path(directory + "/digits.sqfs")), bytes_of(pack))
        os.makedirs(self.path("hard/digits.sqfs"))
        self.assert_fails(self.slipway("pull", name, "-o", "hard"), '"hard/digits.sqfs" is a directory', "try: name another output")
        os.mkfifo(self.path("pipe"))
        self.assert_fails(self.slipway("pull", name, "-o", "pipe"), '"pipe" is there, and is no file')
        self.assertEqual(os.listdir(self.path("hard/digits.sqfs")), [])

    def test_an_image_of_layers_is_no_file(self):
        self.push_small("lab/small:v1")
        proxy = self.proxy()
        self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/small:v1", "-o", "out"), "is an image of layers, not an artifact",
                          "requested by: --output", f"try: make a file of it: slipway convert docker://{proxy.host}/lab/small:v1 FILE.sqfs")
        self.assertEqual(len(proxy.paths()), 2)  # manifest and config, no layer

    def test_files_of_oras(self):
        files = [("model.bin", os.urandom(70_000)), ("docs/deep/readme.md", b"# read"), (None, b"no name")]
        digest = self.put_artifact("lab/files", files, artifactType="application/vnd.unknown.artifact.v1")
        name = f"{self.registry.host}/lab/files:v1"
        told = self.pull("--json", name, "-o", "out").json()
        unnamed = "sha256-" + digest_of(b"no name")[7:]
        self.assertEqual(told["files"], ["out/model.bin", "out/docs/deep/readme.md", "out/" + unnamed])
        for title, data in files:
            self.assertEqual(bytes_of(self.path("out/" + (title or unnamed))), data)
        self.write("file", "x")
        self.assert_fails(self.slipway("pull", name, "-o", "file"), '"file" is no directory, and the artifact has 3 files')
        self.assertEqual(self.pull("--json", name).json()["manifest_digest"], digest)
        self.assertEqual(self.names()[name]["kind"], "artifact")
        self.assert_fails(self.slipway("run", name), "vnd.unknown.artifact.v1", '"model.bin", "docs/deep/readme.md"', "slipway pull REFERENCE -o")
        self.assert_fails(self.slipway("convert", name, "out.sqfs"), "is an artifact of type")
        self.assertIn("model.bin", self.assert_succeeds(self.slipway("inspect", name)).stdout)

    def test_a_helm_chart(self):
        """No titles, a config of its own, which is its type."""
        config = json.dumps({"name": "chart", "version": "0.1.0"}).encode()
        kind = "application/vnd.cncf.helm.config.v1+json"
        chart = os.urandom(5000)
        self.put_artifact("charts/lab", [(None, chart)], "0.1.0", layer_type="application/vnd.cncf.helm.chart.content.v1.tar+gzip",
                          config={"mediaType": kind, "digest": put_blob(self.registry.host, "charts/lab", config), "size": len(config)})
        proxy = self.proxy()
        self.assert_fails(self.slipway("run", f"docker://{proxy.host}/charts/lab:0.1.0", "--", "true"), f'an artifact of type "{kind}", not an image')
        self.assertEqual(len(proxy.paths()), 2)  # before its file was fetched
        self.pull(f"{proxy.host}/charts/lab:0.1.0", "-o", "chart.tgz")
        self.assertEqual(bytes_of(self.path("chart.tgz")), chart)

    def test_hostile_titles(self):
        self.write("victim", "mine")
        self.write("out/safe", "")
        os.symlink(self.path(""), self.path("out/link"))
        for title in ("../victim", "/etc/passwd", "a/../../victim", "..", "."):
            with self.subTest(title):
                self.put_artifact("lab/bad", [("first", b"1"), (title, b"evil")])
                result = self.assert_fails(self.slipway("pull", f"{self.registry.host}/lab/bad:v1", "-o", "out"), title)
                self.assertNotIn("wrote", result.stderr)
                self.assertEqual(sorted(os.listdir(self.path("out"))), ["link", "safe"])
        # A link that stands there already leads nowhere but into the directory.
        self.put_artifact("lab/bad", [("link/victim", b"evil"), ("two", b"2")])
        self.slipway("pull", f"{self.registry.host}/lab/bad:v1", "-o", "out")
        self.assertEqual(bytes_of(self.path("victim")), b"mine")
        self.put_artifact("lab/bad", [("same", b"1"), ("./same", b"2")])
        self.assert_fails(self.slipway("pull", f"{self.registry.host}/lab/bad:v1", "-o", "new"), 'two files of the artifact are "same"')
        self.assertFalse(os.path.exists(self.path("new")))

    def test_the_output_is_looked_at_before_anything_is_fetched(self):
        data, proxy = b"evil" * 1000, self.proxy()
        self.put_artifact("lab/evil", [("../evil", data)])
        self.put_artifact("lab/good", [("good", data)])
        self.put_artifact("lab/two", [("a", b"other"), ("a/b", data)])
        self.put_artifact("lab/deep", [("a", b"other"), ("file/b", data)])
        os.symlink("nowhere", self.path("link"))
        for directory in ("closed", "there/good", "deep"):
            os.makedirs(self.path(directory))
        os.chmod(self.path("closed"), 0o500)
        self.write("deep/file", "mine")
        for name, output, *texts in (
                ("evil", "new/", 'the member "../evil" would leave the directory'),
                ("good", "link", '"link" is there, and is no file'),
                ("good", "link/", "is no directory"),
                ("good", "missing/good", "there is no directory", "try: make it first: mkdir -p"),
                ("good", "closed/good", "cannot write into"),
                ("good", "closed", "cannot write into"),
                ("good", "closed/new/", "cannot write into"),
                ("good", "there", '"there/good" is a directory'),
                ("two", "new", 'has a file "a" and in a directory of the same name a file "a/b"'),
                ("deep", "deep", '"deep/file" is no directory')):
            with self.subTest(output=output, name=name):
                self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/{name}:v1", "-o", output), *texts)
                self.assertFalse([path for path in proxy.paths() if digest_of(data) in path])
        self.assertEqual(self.blobs(), [])
        self.assertFalse(os.path.exists(self.path("new")))
        self.assertEqual(os.listdir(self.path("deep")), ["file"])

    def test_what_is_in_the_way_only_when_all_is_fetched(self):
        data = os.urandom(1000)
        self.put_artifact("lab/good", [("good", data)])

        def rule(_, path, *__):
            if digest_of(data) in path:
                os.makedirs(self.path("got"), exist_ok=True)
                os.makedirs(self.path("got/good"), exist_ok=True)
        proxy = self.proxy(rule)
        self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/good:v1", "-o", "got"), '"got/good" is a directory')
        self.assertTrue([path for path in proxy.paths() if digest_of(data) in path])
        self.assertEqual(self.blobs(), [])

    def test_what_others_made_stays(self):
        layout = os.path.dirname(self.make_image()) + "/layout-root.sqfs"
        self.assert_succeeds(self.slipway("run", f"oci:{layout}", "--", "true"))
        made = lambda: sorted(os.listdir(os.path.join(self.store, "squashfs")))
        before = made()
        self.assertNotEqual(before, [])
        data = os.urandom(1000)
        self.put_artifact("lab/good", [("good", data)])
        blobs = self.blobs()
        self.pull(f"{self.registry.host}/lab/good:v1", "-o", "got")
        self.assertEqual((made(), self.blobs()), (before, blobs))
        self.pull(f"{self.registry.host}/lab/good:v1")
        blobs = self.blobs()
        self.assertIn(digest_of(data)[7:], blobs)
        self.pull(f"{self.registry.host}/lab/good:v1", "-o", "got")
        self.assertEqual(self.blobs(), blobs)

    def test_one_file_twice(self):
        self.put_artifact("lab/twice", [(None, b"same"), (None, b"same")])
        told = self.pull("--json", f"{self.registry.host}/lab/twice:v1", "-o", "out").json()
        self.assertEqual(told["files"], ["out/sha256-" + digest_of(b"same")[7:]])
        self.assertEqual(bytes_of(self.path(told["files"][0])), b"same")

    def test_what_a_publisher_writes_does_not_reach_the_terminal_as_it_is(self):
        self.put_artifact("lab/red", [("\x1b[31mred", b"red")], annotations={"\x1b[32mgreen": "\x1b[33myellow"})
        name = f"{self.registry.host}/lab/red:v1"
        shown = self.assert_succeeds(self.slipway("inspect", f"docker://{name}"))
        pulled = self.pull(name, "-o", "out/")
        self.assertIn("yellow", shown.stdout)
        self.assertIn("red", pulled.stderr)
        self.assertNotIn("\x1b", shown.stdout + pulled.stdout + pulled.stderr)
        self.assertEqual(os.listdir(self.path("out")), ["\x1b[31mred"])

    def test_wrong_bytes_and_cuts(self):
        pack = self.make_pack(size=500_000)
        self.push(pack, f"{self.registry.host}/data/digits:v1")
        blob = digest_of(bytes_of(pack))
        flip = lambda status, headers, data: (status, headers, data[:900] + bytes([data[900] ^ 1]) + data[901:])
        proxy = self.proxy(lambda _, path, *__: Answer(change=flip) if blob in path else None)
        self.assert_fails(self.slipway("pull", f"{proxy.host}/data/digits:v1", "-o", "got"), "sent something else than", blob)
        self.assertFalse(os.path.exists(self.path("got")))
        cuts = []

        def rule(_, path, headers, __):
            if blob in path and len(cuts) < 2:
                cuts.append(headers.get("Range"))
                return Answer(cut_after=100_000)
        self.pull(f"{self.proxy(rule).host}/data/digits:v1", "-o", "got")
        self.assertEqual(cuts, [None, "bytes=100000-"])
        self.assertEqual(bytes_of(self.path("got")), bytes_of(pack))

    def test_a_killed_pull_is_continued_and_leaves_no_file(self):
        pack = self.make_pack(size=500_000)
        self.push(pack, f"{self.registry.host}/data/digits:v1")
        blob, resumed = digest_of(bytes_of(pack)), []

        def rule(_, path, headers, __):
            if blob in path and "Range" not in headers:
                return Answer(cut_after=100_000)
            if blob in path and not resumed:
                return Answer(delay=30)
        proxy = self.proxy(rule)
        process = subprocess.Popen([program(), "pull", f"{proxy.host}/data/digits:v1", "-o", self.path("got")], env=self.env,
                                   stderr=subprocess.DEVNULL)
        partial = os.path.join(self.store, "partial", blob[7:])
        deadline = time.monotonic() + 20
        while not (os.path.exists(partial) and os.path.getsize(partial) == 100_000) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual([name for name in os.listdir(self.path("")) if name.startswith("got")], [])
        resumed.append(True)
        before = len(proxy.requests)
        self.pull(f"{proxy.host}/data/digits:v1", "-o", "got")
        self.assertEqual([headers.get("Range") for _, path, headers in proxy.requests[before:] if blob in path], ["bytes=100000-"])
        self.assertEqual(bytes_of(self.path("got")), bytes_of(pack))


class Images(ArtifactTest):
    """Squashfs and SIF files that run where they lie in the store."""

    def test_a_squashfs_image_as_an_artifact(self):
        image = self.make_image()
        name = f"{self.registry.host}/lab/root:v1"
        self.push("--artifact", image, name)
        manifest, _ = self.manifest("lab/root", "v1")
        self.assertEqual((manifest["artifactType"], manifest["layers"][0]["mediaType"]), (IMAGE, "application/vnd.squashfs"))
        self.assertEqual(manifest["annotations"], {"org.opencontainers.image.version": "7"})
        for source in (f"docker://{name}", name):
            with self.subTest(source):
                self.assertEqual(self.assert_succeeds(self.slipway("run", source)).stdout, "small root\n")
        self.assertEqual(self.names()[name]["kind"], "squashfs")
        self.assertFalse(os.path.exists(os.path.join(self.store, "squashfs")))  # nothing was converted
        self.assert_succeeds(self.slipway("convert", name, "copy.sqfs"))
        self.assertEqual(bytes_of(self.path("copy.sqfs")), bytes_of(image))
        self.assert_fails(self.slipway("convert", name, "copy.sqfs"), "is there already")
        self.assert_succeeds(self.slipway("convert", "--compressor", "gzip", name, "gzip.sqfs"))
        self.assertEqual(self.slipway("inspect", "--json", "gzip.sqfs").json()["compressor"], "gzip")
        self.assert_succeeds(self.slipway("convert", f"docker://{name}", "tree"))
        self.assertTrue(os.path.exists(self.path("tree/etc/image")))
        self.assert_succeeds(self.slipway("sbom", name))

    def test_without_the_option_it_goes_as_layers(self):
        self.push(self.make_image(), f"{self.registry.host}/lab/root:v1")
        manifest, _ = self.manifest("lab/root", "v1")
        self.assertNotIn("artifactType", manifest)
        self.assertIn("vnd.oci.image.layer", manifest["layers"][0]["mediaType"])

    def test_removed_while_it_runs(self):
        name = f"{self.registry.host}/lab/root:v1"
        self.push("--artifact", self.make_image(), name)
        self.pull(name)
        self.check_removal_while(name, [name], "cat /etc/image", "small root\n")

    def test_a_pack_is_removed_while_it_is_used(self):
        name, image = f"{self.registry.host}/data/digits:v1", self.make_image()
        self.push(self.make_pack(), name)
        self.pull(name)
        self.check_removal_while(name, ["--data", f"{name}:/data", image], "cat /data/more/two", "second file")

    def check_removal_while(self, name, arguments, script, output):
        process = subprocess.Popen([program(), "run", *arguments, "--", "sh", "-c", "echo up; read x; " + script],
                                   env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "up\n")
        try:
            self.assert_succeeds(self.slipway("rmi", name))
            self.assertEqual(len(self.blobs()), 1)  # the file that is served stays: over NFS it would be gone
        finally:
            out, _ = process.communicate("\n")
        self.assertEqual((process.returncode, out), (0, output))
        for _ in range(100):  # its server ends on its own
            self.assert_succeeds(self.slipway("gc"))
            if not self.blobs():
                return
            time.sleep(0.1)
        self.fail("the file stays")

    def test_a_signed_file_stays_signed(self):
        image = self.make_image()
        subprocess.run([require_program("openssl"), "genpkey", "-algorithm", "ed25519", "-out", self.path("key.pem")], check=True)
        subprocess.run([require_program("openssl"), "pkey", "-in", self.path("key.pem"), "-pubout", "-out", self.path("key.pub")], check=True)
        name = f"{self.registry.host}/lab/root:v1"
        self.push("--artifact", image, f"{self.registry.host}/lab/root:plain")
        self.assert_fails(self.slipway("run", f"--verify={self.path('key.pub')}", f"docker://{self.registry.host}/lab/root:plain"), "sign")
        self.assert_succeeds(self.slipway("sign", image, "--key", self.path("key.pem")))
        self.push("--artifact", image, name)
        result = self.assert_succeeds(self.slipway("run", f"--verify={self.path('key.pub')}", f"docker://{name}"))
        self.assertEqual(result.stdout, "small root\n")

    def test_a_sif_file(self):
        squashfs = bytes_of(self.make_image("gzip.sqfs", "--compressor", "gzip"))
        architecture = self.slipway("inspect", "--json", "gzip.sqfs").json()["config"]["architecture"]
        write_sif(self.path("image.sif"), [(lambda *where: partition(*where, architecture=architecture), squashfs)], architecture=architecture)
        name = f"{self.registry.host}/lab/sif:v1"
        self.push("--artifact", "image.sif", name)
        manifest, _ = self.manifest("lab/sif", "v1")
        self.assertEqual(manifest["layers"][0]["mediaType"], "application/vnd.sylabs.sif.layer.v1.sif")
        self.assertEqual(self.assert_succeeds(self.slipway("run", f"docker://{name}", "--", "cat", "/etc/image")).stdout, "small root\n")
        self.assertEqual(self.names()[name]["kind"], "SIF")
        self.assert_succeeds(self.slipway("convert", name, "copy.sif"))
        self.assertEqual(bytes_of(self.path("copy.sif")), bytes_of(self.path("image.sif")))
        # As `apptainer push oras://` writes it: a config of its own, which is the type.
        config = {"mediaType": "application/vnd.sylabs.sif.config.v1+json", "digest": digest_of(b"{}"), "size": 2}
        self.put_artifact("lab/apptainer", [("image.sif", bytes_of(self.path("image.sif")))], config=config,
                          layer_type="application/vnd.sylabs.sif.layer.v1.sif")
        self.assertEqual(self.assert_succeeds(self.slipway("run", f"docker://{self.registry.host}/lab/apptainer:v1", "--", "cat",
                                                           "/etc/image")).stdout, "small root\n")

    def test_a_squashfs_that_another_tool_pushed(self):
        """Its title is all that oras and podman tell; and a title may be wrong."""
        image = bytes_of(self.make_image())
        self.put_artifact("lab/oras", [("root.sqfs", image)], artifactType="application/vnd.unknown.artifact.v1")
        self.assertEqual(self.assert_succeeds(self.slipway("run", f"docker://{self.registry.host}/lab/oras:v1")).stdout, "small root\n")
        for data in (b"no squashfs at all" * 100, b"hsqs" + os.urandom(5000), b""):
            self.put_artifact("lab/wrong", [("root.sqfs", data)])
            self.assert_status(self.slipway("run", f"docker://{self.registry.host}/lab/wrong:v1", "--", "true"), 125)

    def test_what_is_no_file(self):
        host = self.registry.host
        layout = self.make_oci_layout([[Dir("etc"), File("etc/one", b"1")]])
        self.write("dir/etc/file", "x")
        for source in (f"oci:{layout}", "./dir"):
            self.assert_fails(self.slipway("push", "--artifact", source, f"{host}/x:v1"), "is no single file", "requested by: --artifact",
                              f"try: make one file of it: slipway convert {source} FILE.sqfs")
        self.write("bad.sqfs", b"hsqs" + bytes(4000))
        self.assert_fails(self.slipway("push", "--artifact", "bad.sqfs", f"{host}/x:v1"), "bad.sqfs")


class Interoperation(ArtifactTest):
    def skopeo(self, *arguments):
        return self.assert_succeeds(run([require_program("skopeo"), "--insecure-policy", *arguments], env=self.env))

    def test_skopeo_copies_what_we_pushed_and_we_take_what_it_copied(self):
        pack = self.make_pack()
        host = self.registry.host
        digest = self.push(pack, f"{host}/data/digits:v1")["manifest_digest"]
        self.skopeo("copy", "--src-tls-verify=false", f"docker://{host}/data/digits:v1", f"oci:{self.path('layout')}:v1")
        self.skopeo("copy", "--dest-tls-verify=false", f"oci:{self.path('layout')}:v1", f"docker://{host}/copied/digits:v1")
        self.assertEqual(self.manifest("copied/digits", "v1")[1], digest)
        self.assertEqual(self.pull("--json", f"{host}/copied/digits:v1").json()["manifest_digest"], digest)
        self.pull(f"{host}/copied/digits@{digest}", "-o", "got.sqfs")
        self.assertEqual(bytes_of(self.path("got.sqfs")), bytes_of(pack))
        # And from the layout, byte for byte.
        told = self.push("--all-platforms", f"oci:{self.path('layout')}:v1", f"{host}/again/digits:v1")
        self.assertEqual(told["manifest_digest"], digest)


    def test_apptainer_takes_our_sif_files_and_we_take_its(self):
        apptainer = sid_program("apptainer", "apptainer", "charliecloud", "squashfuse")
        host, cache = self.registry.host, {"APPTAINER_CACHEDIR": self.path("cache"), "APPTAINER_TMPDIR": self.path("")}
        self.make_image("root.sqfs")
        self.assert_succeeds(self.slipway("convert", "root.sqfs", "image.sif"))
        self.push("--artifact", "image.sif", f"{host}/lab/ours:v1")
        result = run([apptainer, "pull", "--no-https", self.path("pulled.sif"), f"oras://{host}/lab/ours:v1"], env={**self.env, **cache})
        self.assert_succeeds(result)
        self.assertEqual(bytes_of(self.path("pulled.sif")), bytes_of(self.path("image.sif")))
        result = run([apptainer, "push", "--no-https", "-U", self.path("image.sif"), f"oras://{host}/lab/theirs:v1"], env={**self.env, **cache})
        self.assert_succeeds(result)
        self.assertEqual(self.assert_succeeds(self.slipway("run", f"docker://{host}/lab/theirs:v1")).stdout, "small root\n")
        self.pull(f"{host}/lab/theirs:v1", "-o", "theirs.sif")
        self.assertEqual(bytes_of(self.path("theirs.sif")), bytes_of(self.path("image.sif")))


class Secured(ArtifactTest):
    tls, users = True, {"ann": "secret"}

    def test_all_of_it_with_tls_and_a_password(self):
        pack, image = self.make_pack(), self.make_image()
        env = {"SSL_CERT_FILE": self.certificates[0]}
        name = f"{self.registry.host}/data/digits:v1"
        self.assert_fails(self.slipway("push", pack, name, env=env), "without credentials")
        auth = self.write("auth.json", json.dumps({"auths": {self.registry.host: {"auth": base64.b64encode(b"ann:secret").decode()}}}))
        told = self.push(pack, name, "--authfile", auth, env=env)
        self.pull(name, "--authfile", auth, "-o", "got.sqfs", env=env)
        self.assertEqual(bytes_of(self.path("got.sqfs")), bytes_of(pack))
        env["REGISTRY_AUTH_FILE"] = auth
        self.assertEqual(self.slipway("inspect", "--json", f"docker://{name}", env=env).json()["manifest_digest"], told["manifest_digest"])
        result = self.slipway("run", "--data", f"docker://{name}:/data", image, "--", "cat", "/data/more/two", env=env)
        self.assertEqual(self.assert_succeeds(result).stdout, "second file")
        self.push("--artifact", image, f"{self.registry.host}/lab/root:v1", env=env)
        self.assertEqual(self.assert_succeeds(self.slipway("run", f"docker://{self.registry.host}/lab/root:v1", env=env)).stdout, "small root\n")


if __name__ == "__main__":
    main()
