"""slipway push, read back with skopeo and umoci.

Must not: reach any network but loopback.
"""
import json
import os

from registry_server import Answer
from registry_test import RegistryTest
from slipway_test import Dir, File, main, require_program, run, tree_of


class Push(RegistryTest):
    def push(self, *arguments, **more):
        return self.assert_succeeds(self.slipway("push", "--json", *arguments, **more)).json()

    def skopeo_tree(self, name, target):
        """Fetch an image with skopeo and unpack it with umoci, neither of which is ours."""
        result = run([require_program("skopeo"), "copy", "--insecure-policy", "--src-tls-verify=false",
                      f"docker://{self.registry.host}/{name}", f"oci:{self.path(target)}:latest"], env=self.env)
        self.assert_succeeds(result)
        result = run([require_program("umoci"), "unpack", "--rootless", "--image", f"{self.path(target)}:latest",
                      self.path(target + "-bundle")], env=self.env)
        self.assert_succeeds(result)
        return tree_of(self.path(target + "-bundle/rootfs"))

    def layout(self, size=300_000, name="layout"):
        return self.make_oci_layout([[Dir("etc"), File("etc/one", os.urandom(size))], [File("two", "second layer")]], name=name)

    def test_what_was_pushed_is_what_skopeo_gets(self):
        layout = self.layout()
        told = self.push(f"oci:{layout}", f"docker://{self.registry.host}/lab/new:v1")
        self.assertGreater(told["uploaded_bytes"], 300_000)
        with open(os.path.join(layout, "index.json")) as file:
            self.assertEqual(told["manifest_digest"], json.load(file)["manifests"][0]["digest"])
        tree = self.skopeo_tree("lab/new:v1", "fetched")
        self.assert_succeeds(self.slipway("convert", f"oci:{layout}", "out"))
        added = (".slipway", ".singularity.d", "singularity", "ch")
        mine = {path: facts for path, facts in tree_of(self.path("out")).items() if path.split("/")[0] not in added}
        self.assertEqual(tree, mine)
        again = self.push(f"oci:{layout}", f"docker://{self.registry.host}/lab/new:v2")
        self.assertEqual(again["uploaded_bytes"], 0)
        self.assert_succeeds(self.slipway("pull", f"{self.registry.host}/lab/new:v2"))

    def test_every_kind_of_source(self):
        os.makedirs(self.path("dir/etc"))
        self.write("dir/etc/file", "in a directory")
        self.assert_succeeds(self.slipway("convert", "dir", "dir.sqfs"))
        self.assert_succeeds(self.slipway("convert", f"oci:{self.layout()}", "store:stored"))
        for source in ("./dir", "dir.sqfs", "stored"):
            with self.subTest(source):
                self.push(source, f"{self.registry.host}/lab/kinds:v1")
                tree = self.skopeo_tree("lab/kinds:v1", source.strip("./") + "-fetched")
                self.assertIn("etc/one" if source == "stored" else "etc/file", tree)

    def test_a_large_layer_goes_in_chunks(self):
        layout = self.layout(size=40 << 20)
        proxy = self.proxy()
        self.push(f"oci:{layout}", f"{proxy.host}/lab/large:v1")
        ranges = [headers.get("Content-Range") for method, _, headers in proxy.requests if method == "PATCH"]
        self.assertIn(f"0-{(32 << 20) - 1}", ranges)
        self.assertTrue(any(text.startswith(f"{32 << 20}-") for text in ranges), ranges)
        self.assert_succeeds(self.slipway("convert", f"docker://{self.registry.host}/lab/large:v1", "out.sqfs"))

    def test_chunks_are_as_large_as_the_registry_wants_them(self):
        least = 36 << 20

        def rule(method, path, *_):
            if method == "POST":
                return Answer(change=lambda status, headers, data: (status, {**headers, "OCI-Chunk-Min-Length": str(least)}, data))
        proxy = self.proxy(rule)
        layout = self.layout(size=40 << 20)
        self.push(f"oci:{layout}", f"{proxy.host}/lab/large:v1")
        ranges = [headers["Content-Range"] for method, _, headers in proxy.requests if method == "PATCH"]
        self.assertIn(f"0-{least - 1}", ranges)
        self.assertTrue(any(text.startswith(f"{least}-") for text in ranges), ranges)
        self.skopeo_tree("lab/large:v1", "fetched")

    def test_a_mount_that_is_refused_is_an_upload(self):
        """The store knows the layers from a repository that is gone: the registry answers 202, a place to upload to."""
        proxy = self.proxy()
        self.assert_succeeds(self.slipway("convert", f"oci:{self.layout()}", f"store:{proxy.host}/lab/gone:v1"))
        told = self.push(f"{proxy.host}/lab/gone:v1", f"{proxy.host}/lab/second:v1")
        self.assertEqual(sum("from=lab%2Fgone" in path for path in proxy.paths("POST")), 2)
        self.assertGreater(told["uploaded_bytes"], 300_000)
        self.skopeo_tree("lab/second:v1", "fetched")

    def test_a_layer_of_another_repository_is_mounted(self):
        layout = self.layout()
        proxy = self.proxy()
        self.push(f"oci:{layout}", f"{proxy.host}/lab/first:v1")
        self.pull(f"{proxy.host}/lab/first:v1")
        before = len(proxy.requests)
        told = self.push(f"{proxy.host}/lab/first:v1", f"{proxy.host}/lab/second:v1")
        mounts = [path for method, path, _ in proxy.requests[before:] if method == "POST" and "from=lab%2Ffirst" in path]
        self.assertEqual(len(mounts), 2)
        self.assertLess(told["uploaded_bytes"], 1000)  # the config
        self.skopeo_tree("lab/second:v1", "fetched")

    def push_through(self, rule):
        layout = self.layout()
        proxy = self.proxy(rule)
        result = self.slipway("push", f"oci:{layout}", f"{proxy.host}/lab/hard:v1")
        return result, proxy

    def test_an_answer_that_is_lost_is_no_harm(self):
        """The chunk arrives, its answer does not. docker-registry calls the upload invalid then: it is begun anew."""
        lost = []

        def rule(method, path, *_):
            if method == "PATCH" and not lost:
                lost.append(path)
                return Answer(change=lambda *_: (503, {}, b""))
        result, proxy = self.push_through(rule)
        self.assert_succeeds(result)
        self.assertEqual(sum(m == "POST" for m, *_ in proxy.requests), 4)  # two layers, the config, and one again
        self.skopeo_tree("lab/hard:v1", "fetched")

    def test_a_registry_that_says_how_far_it_is(self):
        """The same before a registry that answers as the specification has it: 416, and by GET the place and range."""
        kept = {}

        def keep(status, headers, data):
            kept.update(Location=headers["Location"], Range=headers["Range"])
            return 503, {}, b""

        def rule(method, path, *_):
            if method == "PATCH" and not kept:
                return Answer(change=keep)
            if method == "PATCH" and "refused" not in kept:
                kept["refused"] = path
                return Answer(416)
            if method == "GET" and "/uploads/" in path:
                return Answer(204, {key: kept[key] for key in ("Location", "Range")})
        result, proxy = self.push_through(rule)
        self.assert_succeeds(result)
        self.assertEqual(sum(m == "POST" for m, *_ in proxy.requests), 3)
        self.assertEqual(sum(m == "PATCH" for m, *_ in proxy.requests), 4)
        self.skopeo_tree("lab/hard:v1", "fetched")

    def test_an_upload_that_the_registry_forgets_is_begun_anew(self):
        forgotten = []

        def rule(method, path, *_):
            if method == "PATCH" and not forgotten:
                forgotten.append(path)
                return Answer(404)
        result, _ = self.push_through(rule)
        self.assert_succeeds(result)
        self.skopeo_tree("lab/hard:v1", "fetched")

    def test_a_registry_that_takes_nothing(self):
        result, _ = self.push_through(lambda method, *_: Answer(405) if method == "POST" else None)
        self.assert_fails(result, "takes no upload (HTTP 405)")
        result, _ = self.push_through(lambda method, path, *_: Answer(400, body=b'{"errors":[{"message":"not this one"}]}')
                                      if method == "PUT" and "/manifests/" in path else None)
        self.assert_fails(result, "the manifest was not taken (HTTP 400)", "not this one")

    def test_what_cannot_be_pushed(self):
        self.assert_fails(self.slipway("push", "nosuch", f"{self.registry.host}/x"), "there is no image")
        layout = self.layout()
        self.assert_fails(self.slipway("push", f"oci:{layout}", f"{self.registry.host}/x@sha256:{'0' * 64}"), "to a tag, not to a digest")
        self.assert_fails(self.slipway("convert", f"oci:{layout}", f"docker://{self.registry.host}/x"), "slipway push SOURCE")


if __name__ == "__main__":
    main()
