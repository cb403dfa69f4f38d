"""Signatures that come and go with images: pull, push, convert, the store; and running what was pulled, verified.

Must not: reach any network but loopback.
"""
import json
import os
import shutil

from registry_server import Answer, put_manifest
from signature_test import BUNDLE, INDEX, MANIFEST, SignatureTest
from slipway_test import Dir, File, digest_of, host_architecture, main


class Travel(SignatureTest):
    def test_pull_brings_them_and_push_sends_them(self):
        self.push_small("lab/small:v1")
        self.sign()
        self.sign(key=self.other)
        told = self.pull("--json", f"{self.registry.host}/lab/small:v1", "-t", "mine").json()
        self.assertEqual(told["signatures"], 2)
        listed = self.assert_succeeds(self.slipway("images", "--json"))
        self.assertEqual([one["name"] for one in listed.json()], ["mine:latest"])
        self.assertEqual(listed.stderr, "")
        told = self.assert_succeeds(self.slipway("push", "--json", "mine", f"docker://{self.registry.host}/lab/copy:v1")).json()
        self.assertEqual((told["signatures"], told["manifest_digest"]), (2, self.digest()))
        self.slipway("push", "--no-signatures", "mine", f"docker://{self.registry.host}/lab/bare:v1")
        self.assert_succeeds(self.verify(f"docker://{self.registry.host}/lab/copy:v1", self.other_public))
        self.assert_fails(self.verify(f"docker://{self.registry.host}/lab/bare:v1"), "is not signed")
        self.pull("--no-signatures", f"{self.registry.host}/lab/copy:v1", "-t", "left")
        self.registry.stop()
        facts = self.assert_succeeds(self.verify("mine", None, "--json")).json()
        self.assertEqual((facts["digest"], facts["layers_checked"]), (told["manifest_digest"], True))
        self.check_blobs()

    def test_a_stored_name_is_signed_and_pushed(self):
        layout = self.make_oci_layout([[Dir("etc"), File("etc/one", "1")]])
        self.assert_succeeds(self.slipway("convert", f"oci:{layout}", "store:mine"))
        self.assert_fails(self.verify("mine"), "is not signed", "slipway sign mine")
        self.sign("mine")
        self.assert_succeeds(self.verify("mine"))
        self.assert_succeeds(self.slipway("push", "mine", f"docker://{self.registry.host}/lab/mine:v1"))
        self.assert_succeeds(self.verify(f"docker://{self.registry.host}/lab/mine:v1"))
        self.sign("oci:" + layout, self.other)
        self.assert_succeeds(self.slipway("push", "oci:" + layout, f"docker://{self.registry.host}/lab/mine:v1"))
        self.assertEqual(len(self.signature_layers("lab/mine")), 2)

    def test_signed_later(self):
        self.push_small("lab/small:v1")
        self.pull(f"{self.registry.host}/lab/small:v1", "-t", "mine")
        self.assert_fails(self.verify("mine"), "is not signed", "pull it again, if it was signed since")
        self.sign()
        self.pull(f"{self.registry.host}/lab/small:v1", "-t", "mine")
        self.assert_succeeds(self.verify("mine"))

    def test_one_request_if_there_are_none(self):
        self.push_small("lab/small:v1")
        proxy = self.proxy()
        self.pull("--no-signatures", f"{proxy.host}/lab/small:v1", "-t", "one")
        without = len(proxy.requests)
        shutil.rmtree(self.store)
        self.pull(f"{proxy.host}/lab/small:v1", "-t", "one")
        self.assertEqual(len(proxy.requests), 2 * without + 1)
        self.assertFalse([path for path in proxy.paths() if "/referrers/" in path])
        # Who runs an image again and again asks for the manifest alone.
        self.push_runnable("lab/root:v1")
        self.assert_succeeds(self.slipway("run", f"docker://{proxy.host}/lab/root:v1"))
        before = len(proxy.requests)
        self.assert_succeeds(self.slipway("run", f"docker://{proxy.host}/lab/root:v1"))
        self.assertEqual(len(proxy.requests), before + 1)

    def test_a_registry_that_does_not_answer_breaks_nothing_unless_signatures_are_required(self):
        self.push_small("lab/small:v1")
        self.sign()
        for status in (401, 403, 429, 500, 503):
            proxy = self.proxy(lambda method, path, headers, number, status=status:
                               Answer(status, {"WWW-Authenticate": 'Basic realm="x"'} if status == 401 else {})
                               if path.endswith(".sig") else None)
            before = self.pull(f"{self.registry.host}/lab/small:v1", "-t", "other").seconds
            result = self.pull(f"{proxy.host}/lab/small:v1", "-t", f"s{status}")
            self.assertLess(result.seconds, before + 3)
            tries = [path for path in proxy.paths() if path.endswith(".sig")]
            self.assertLessEqual(len(tries), 2)
            self.assert_fails(self.slipway("pull", "--signatures", f"{proxy.host}/lab/small:v1", "-t", "required"),
                              "while asking for the signatures of", "which are required here")
            self.write("site/policy.json", json.dumps({"require_signature": True}))
            self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/small:v1", "-t", "required"), "which are required here")
            os.unlink(self.path("site/policy.json"))
        self.assert_fails(self.slipway("inspect", "required"), "there is no image")

    def test_garbage_collection(self):
        self.push_small("lab/small:v1")
        self.sign()
        self.pull(f"{self.registry.host}/lab/small:v1", "-t", "mine")
        self.pull(f"{self.registry.host}/lab/small:v1", "-t", "too")
        self.assert_succeeds(self.slipway("gc"))
        self.assert_succeeds(self.verify("mine"))
        self.assert_succeeds(self.slipway("rmi", "mine"))
        self.assert_succeeds(self.verify("too"))
        self.assert_succeeds(self.slipway("rmi", "too"))
        self.assertEqual(self.blobs(), [])
        with open(os.path.join(self.store, "oci/index.json")) as file:
            self.assertEqual(json.load(file)["manifests"], [])

    def test_convert_keeps_them_where_the_manifest_stays(self):
        self.push_small("lab/small:v1")
        self.sign()
        self.attach_bundle(self.bundle(self.other), listed_type=BUNDLE)
        for target, image in (("oci:" + self.path("out"), "oci:" + self.path("out")),
                              ("oci-archive:" + self.path("out.tar"), "oci-archive:" + self.path("out.tar")),
                              ("store:kept", "kept")):
            with self.subTest(target):
                self.assert_succeeds(self.slipway("convert", self.image, target))
                for public in (self.public, self.other_public):
                    self.assert_succeeds(self.verify(image, public))
        self.assert_succeeds(self.slipway("convert", "oci-archive:" + self.path("out.tar"), "store:again"))
        self.assert_succeeds(self.verify("again", self.other_public))
        self.assert_succeeds(self.slipway("convert", "kept", "oci:" + self.path("second") + ":tag"))
        self.assert_succeeds(self.verify("oci:" + self.path("second") + ":tag"))
        result = self.assert_succeeds(self.slipway("convert", "kept", "kept.sqfs"))
        self.assertIn("not kept: the signatures", result.stderr)
        result = self.assert_succeeds(self.slipway("convert", "kept", "docker-archive:kept.tar"))
        self.assertIn("not kept: the signatures", result.stderr)

    def test_all_platforms_are_pushed_with_them(self):
        layout = self.make_oci_layout([[Dir("etc"), File("etc/one", "1")]])
        self.sign(f"oci:{layout}")
        told = self.assert_succeeds(self.slipway("push", "--json", "--all-platforms", f"oci:{layout}", f"{self.registry.host}/lab/all:v1")).json()
        self.assertEqual(told["signatures"], 1)
        self.assert_succeeds(self.verify(f"docker://{self.registry.host}/lab/all:v1"))

    def test_signed_again_and_pulled_by_its_digest(self):
        self.push_small("lab/small:v1")
        self.sign()
        pinned = f"{self.registry.host}/lab/small@{self.digest()}"
        self.pull(pinned)
        self.sign(key=self.other)
        self.assertEqual(self.pull("--json", pinned).json()["signatures"], 2)

    def test_a_signed_index_counts_for_the_image_taken_from_it(self):
        layout = self.make_oci_layout([[Dir("etc"), File("etc/one", "1")]])
        self.skopeo_push(layout, "lab/many:one")
        manifest = self.get("/v2/lab/many/manifests/one")
        put_manifest(self.registry.host, "lab/many", "v1", {"schemaVersion": 2, "mediaType": INDEX, "manifests": [
            {"mediaType": MANIFEST, "digest": digest_of(manifest), "size": len(manifest),
             "platform": {"os": "linux", "architecture": host_architecture()}}]}, INDEX)
        image = f"{self.registry.host}/lab/many:v1"
        self.sign("docker://" + image)
        self.assertEqual(len(self.signature_layers("lab/many", self.digest("lab/many"))), 1)
        self.pull(image, "-t", "mine")
        facts = self.assert_succeeds(self.verify("mine", None, "--json")).json()
        self.assertEqual(facts["digest"], self.digest("lab/many"))
        self.assert_succeeds(self.slipway("gc"))
        self.assert_succeeds(self.verify("mine"))
        self.assert_succeeds(self.slipway("convert", "mine", "oci:" + self.path("out") + ":tag"))
        self.assert_succeeds(self.verify("oci:" + self.path("out") + ":tag"))
        self.assert_succeeds(self.slipway("convert", "oci:" + self.path("out") + ":tag", self.path("tree")))
        result = self.assert_succeeds(self.slipway("push", "mine", f"docker://{self.registry.host}/lab/part:v1"))
        self.assertIn(f"the signatures of the index {self.digest('lab/many')} stay behind", result.stderr)
        self.assert_succeeds(self.slipway("rmi", "mine"))
        self.assertEqual(self.blobs(), [])


class Running(SignatureTest):
    def setUp(self):
        super().setUp()
        self.push_runnable("lab/root:v1")
        self.image = f"docker://{self.registry.host}/lab/root:v1"

    def sealed(self):
        return [name for name in os.listdir(os.path.join(self.store, "squashfs")) if len(name) == 134]

    def test_run_verify_of_what_was_pulled_offline(self):
        self.sign()
        verified = self.assert_succeeds(self.slipway("run", f"--verify={self.public}", self.image))
        self.assertEqual(verified.stdout, "small root\n")
        self.pull(f"{self.registry.host}/lab/root:v1", "-t", "mine")
        self.registry.stop()
        self.assert_succeeds(self.slipway("run", f"--verify={self.public}", "mine"))
        self.assert_fails(self.slipway("run", f"--verify={self.other_public}", "mine"), "nobody who is trusted here")
        plan = self.assert_succeeds(self.slipway("run", "--dry-run", f"--verify={self.public}", "mine")).json()
        name, = self.sealed()
        self.assertEqual(plan["mounts"][0]["seal"], "sha256:" + name[65:129])
        path = os.path.join(self.store, "squashfs", name)
        with open(path, "rb") as file:
            data = file.read()
        with open(self.path("root/usr/share/words-3"), "rb") as file:
            at = data.index(file.read(4096))
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(bytes([data[at] ^ 1]))
        result = self.slipway("run", f"--verify={self.public}", "mine", "--", "cat", "/usr/share/words-3")
        self.assert_status(result, 1)

    def test_run_verify_of_what_is_not_signed(self):
        self.assert_fails(self.slipway("run", f"--verify={self.public}", self.image), "is not signed", "slipway sign")
        self.sign()
        proxy = self.proxy(lambda method, path, headers, number: Answer(403) if path.endswith(".sig") else None)
        self.assert_fails(self.slipway("run", f"--verify={self.public}", f"docker://{proxy.host}/lab/root:v1"),
                          "which are required here")
        self.assert_succeeds(self.slipway("run", f"docker://{proxy.host}/lab/root:v1"))

    def test_the_policy(self):
        self.write("site/policy.json", json.dumps({"require_signature": True, "contact": "help@example.org"}))
        os.mkdir(self.path("site/trust.d"))
        shutil.copy(self.public, self.path("site/trust.d/site.pem"))
        refused = ("this site's policy forbids", "require_signature", "help@example.org")
        self.assert_fails(self.slipway("run", self.image), *refused, "is not signed")
        self.sign(key=self.other)
        self.assert_fails(self.slipway("run", self.image), *refused, "nobody who is trusted here")
        self.assert_fails(self.slipway("run", f"--verify={self.other_public}", self.image), *refused)
        self.attach_bundle(self.bundle(digest=self.digest("lab/root")), digest=self.digest("lab/root"), name="lab/root",
                           listed_type=BUNDLE)
        self.assert_succeeds(self.slipway("run", self.image))
        self.pull(f"{self.registry.host}/lab/root:v1", "-t", "mine")
        self.registry.stop()
        self.assert_succeeds(self.slipway("run", "mine"))
        self.assert_succeeds(self.slipway("run", f"--verify={self.other_public}", "mine"))
        plan = self.assert_succeeds(self.slipway("run", "--dry-run", "mine")).json()
        self.assertTrue(plan["mounts"][0]["seal"].startswith("sha256:"))


if __name__ == "__main__":
    main()
