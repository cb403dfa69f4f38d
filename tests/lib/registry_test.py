# A test case with a registry of its own.
# Must not: know what is tested with it.
import json
import os
import subprocess

from registry_server import Proxy, Registry, make_certificates
from slipway_test import Dir, File, SlipwayTest, digest_of, require_program, run, tree_of
from small_root import make_root


class RegistryTest(SlipwayTest):
    tls, users = False, None

    def setUp(self):
        super().setUp()
        self.certificates = None
        if self.tls:
            os.mkdir(self.path("certificates"))
            self.certificates = make_certificates(self.path("certificates"))
        # Not the test's own environment: a server that lives as long as the test is no leak.
        self.registry = Registry(self.path("registry"), dict(os.environ), self.certificates, self.users)
        self.addCleanup(self.registry.stop)
        self.env["XDG_CONFIG_HOME"] = self.path("config")
        self.env["CONTAINERS_REGISTRIES_CONF"] = self.write("registries.conf", "")
        self.env["SLIPWAY_HTTP_TIMEOUT"] = "5"
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            self.env.pop(name, None)
            self.env.pop(name.upper(), None)

    def proxy(self, rule=lambda *_: None, tls=None):
        proxy = Proxy(self.registry.port, rule, tls)
        self.addCleanup(proxy.stop)
        return proxy

    def skopeo_push(self, layout, name, *options, tag="latest"):
        result = run([require_program("skopeo"), "copy", "--insecure-policy", "--dest-tls-verify=false", *options,
                      f"oci:{layout}:{tag}", f"docker://{self.registry.host}/{name}"], env=self.env)
        self.assert_succeeds(result)

    def push_small(self, name="lab/small:v1", *options, size=300_000):
        """An image of two layers; returns its layout."""
        layout = self.make_oci_layout([[Dir("etc"), File("etc/one", os.urandom(size))], [File("two", "second layer")]],
                                      config={"Env": ["FROM=registry"]}, name="layout-" + name.translate(str.maketrans("/:", "--")))
        self.skopeo_push(layout, name, *options)
        return layout

    def push_runnable(self, name="lab/root:v1"):
        make_root(self.path("root"))
        tar = subprocess.run(["tar", "-c", "-C", self.path("root"), "."], stdout=subprocess.PIPE, check=True).stdout
        layout = self.make_oci_layout([tar], config={"Cmd": ["cat", "/etc/image"]}, name="layout-root")
        self.skopeo_push(layout, name)

    def pull(self, *arguments, **more):
        return self.assert_succeeds(self.slipway("pull", *arguments, **more))

    def blobs(self):
        directory = os.path.join(self.store, "oci/blobs/sha256")
        return sorted(os.listdir(directory)) if os.path.isdir(directory) else []

    def check_blobs(self):
        for name in self.blobs():
            with open(os.path.join(self.store, "oci/blobs/sha256", name), "rb") as file:
                self.assertEqual(digest_of(file.read()), "sha256:" + name)

    def check_same(self, image, layout):
        """What was pulled unpacks like what was pushed."""
        for source, target in ((image, "pulled"), (f"oci:{layout}", "pushed")):
            self.assert_succeeds(self.slipway("convert", source, self.path(target)))
        self.assertEqual(tree_of(self.path("pulled/etc")), tree_of(self.path("pushed/etc")))
        self.assertTrue(os.path.exists(self.path("pulled/two")))

    def layer_digests(self, layout):
        with open(os.path.join(layout, "index.json")) as file:
            manifest = json.load(file)["manifests"][0]["digest"]
        with open(os.path.join(layout, "blobs/sha256", manifest[7:])) as file:
            return [layer["digest"] for layer in json.load(file)["layers"]]
