"""Registries: pull, run docker://, inspect and convert, against Debian's docker-registry; who is asked, and who may.

Must not: reach any network but loopback.
"""
import base64
import json
import os
import subprocess

from registry_server import Answer, free_port, put_blob, put_manifest
from registry_test import RegistryTest
from slipway_test import File, Layout, Dir, digest_of, host_architecture, main, make_tar, program, require_program, run

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"


class Pull(RegistryTest):
    def test_pull_into_the_store(self):
        layout = self.push_small()
        image = f"{self.registry.host}/lab/small:v1"
        told = self.pull("--json", f"docker://{image}").json()
        self.assertEqual(told["name"], image)
        self.assertGreater(told["downloaded_bytes"], 300_000)
        names = [i["name"] for i in self.slipway("images", "--json").json()]
        self.assertEqual(names, [image])
        self.check_blobs()
        self.check_same(f"store:{image}", layout)
        self.assertEqual(self.pull("--json", image).json()["downloaded_bytes"], 0)

    def test_a_name_of_ones_own(self):
        self.push_small()
        self.pull("-t", "mine", f"{self.registry.host}/lab/small:v1")
        self.assertEqual([i["name"] for i in self.slipway("images", "--json").json()], ["mine:latest"])

    def test_docker_media_types(self):
        layout = self.push_small("lab/docker:v1", "--format", "v2s2")
        self.pull(f"{self.registry.host}/lab/docker:v1")
        self.check_same(f"{self.registry.host}/lab/docker:v1", layout)

    def test_run_again_asks_for_the_manifest_only_and_a_digest_for_nothing(self):
        self.push_runnable()
        proxy = self.proxy()
        image = f"docker://{proxy.host}/lab/root:v1"
        result = self.assert_succeeds(self.slipway("run", image))
        self.assertEqual(result.stdout, "small root\n")
        self.assertEqual(len(proxy.paths()), 4)  # manifest, config, layer, signatures
        self.assertEqual(self.assert_succeeds(self.slipway("run", image)).stdout, "small root\n")
        self.assertEqual(proxy.paths()[4:], ["/v2/lab/root/manifests/v1"])

        digest = self.slipway("inspect", "--json", image).json()["manifest_digest"]
        pinned = f"docker://{proxy.host}/lab/root@{digest}"
        self.assert_succeeds(self.slipway("run", pinned, "--", "true"))
        asked = len(proxy.paths())
        self.assertEqual(self.assert_succeeds(self.slipway("run", pinned)).stdout, "small root\n")
        self.assertEqual(len(proxy.paths()), asked)

    def test_a_moved_tag_is_seen_and_only_new_layers_are_fetched(self):
        layers = [[Dir("etc"), File("etc/one", os.urandom(100_000))], [File("two", "old")]]
        layout = Layout(self.path("moving"))
        layout.add_image(layers, "old")
        layout.add_image([layers[0], [File("two", "new")]], "new")
        self.skopeo_push(layout.directory, "lab/moving:v1", tag="old")
        proxy = self.proxy()
        self.pull(f"{proxy.host}/lab/moving:v1")
        self.skopeo_push(layout.directory, "lab/moving:v1", tag="new")
        asked = len(proxy.paths())
        self.pull(f"{proxy.host}/lab/moving:v1")
        self.assertEqual(len(proxy.paths()) - asked, 4)  # manifest, config, the second layer, signatures
        self.assert_succeeds(self.slipway("convert", f"{proxy.host}/lab/moving:v1", "out"))
        with open(self.path("out/two")) as file:
            self.assertEqual(file.read(), "new")

    def test_inspect_fetches_no_layer(self):
        self.push_small()
        proxy = self.proxy()
        facts = self.assert_succeeds(self.slipway("inspect", "--json", f"docker://{proxy.host}/lab/small:v1")).json()
        self.assertEqual(facts["config"]["config"]["Env"], ["FROM=registry"])
        self.assertEqual(len(facts["layers"]), 2)
        self.assertEqual(len(proxy.paths()), 2)
        self.assertEqual(self.blobs(), [])

    def test_convert(self):
        layout = self.push_small()
        self.assert_succeeds(self.slipway("convert", f"docker://{self.registry.host}/lab/small:v1", "out.sqfs"))
        self.check_same("out.sqfs", layout)

    def test_from_a_registry(self):
        self.push_runnable()
        dockerfile = self.write("context/Dockerfile", f"FROM docker://{self.registry.host}/lab/root:v1\nRUN echo built > /made\n")
        self.assert_succeeds(self.slipway("build", "-t", "made", os.path.dirname(dockerfile)))
        self.assertEqual(self.assert_succeeds(self.slipway("run", "made", "--", "cat", "/made", "/etc/image")).stdout, "built\nsmall root\n")

    def test_platforms(self):
        """The index's image of this machine is taken, past attestations and other architectures."""
        other = "arm64" if host_architecture() == "amd64" else "amd64"
        manifests = []
        for architecture in (other, host_architecture()):
            tar = make_tar([File("architecture", architecture)])
            config = json.dumps({"architecture": architecture, "os": "linux", "config": {},
                                 "rootfs": {"type": "layers", "diff_ids": [digest_of(tar)]}}).encode()
            host, name = self.registry.host, "lab/many"
            manifest = json.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST,
                                   "config": {"mediaType": OCI_CONFIG, "digest": put_blob(host, name, config), "size": len(config)},
                                   "layers": [{"mediaType": OCI_LAYER, "digest": put_blob(host, name, tar), "size": len(tar)}]})
            digest = put_manifest(host, name, digest_of(manifest.encode()), manifest.encode(), OCI_MANIFEST)
            manifests.append({"mediaType": OCI_MANIFEST, "digest": digest, "size": len(manifest),
                              "platform": {"architecture": architecture, "os": "linux"}})
        manifests.insert(0, {**manifests[0], "platform": {"architecture": "unknown", "os": "unknown"}})
        index = put_manifest(host, name, "v1", {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests}, OCI_INDEX)
        for reference in (f"docker://{host}/{name}:v1", f"docker://{host}/{name}@{index}"):
            self.assert_succeeds(self.slipway("convert", reference, self.path("out")))
            with open(self.path("out/architecture")) as file:
                self.assertEqual(file.read(), host_architecture())
            subprocess.run(["rm", "-rf", self.path("out")], check=True)
        put_manifest(host, name, "other", {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests[1:2] * 2}, OCI_INDEX)
        self.assert_fails(self.slipway("pull", f"{host}/{name}:other"), f"no image for linux/{host_architecture()}", f"linux/{other}")

    def test_what_is_not_there(self):
        self.push_small()
        host = self.registry.host
        self.assert_fails(self.slipway("pull", f"{host}/lab/small:v2"), f'has no image "{host}/lab/small:v2"', "tags there: v1", "try: ")
        self.assert_fails(self.slipway("run", f"docker://{host}/no/such", "--", "true"), "has no image", "HTTP 404")
        self.assert_fails(self.slipway("pull", f"localhost:{free_port()}/lab/small"), "cannot reach localhost", "try: check host and port")
        self.assert_fails(self.slipway("pull", "no-such-host.invalid/lab/small"), "cannot reach no-such-host.invalid", "resolve", "try: ")
        for text in ("docker://", "docker://UPPER/case", "docker://h.example/a:b:c", "docker://h.example/a@sha256:12", "docker://h:x/a"):
            with self.subTest(text):
                self.assert_fails(self.slipway("run", text, "--", "true"), "names no image of a registry", "try: ")

    def test_without_a_network_what_was_pulled_is_used(self):
        self.push_runnable()
        proxy = self.proxy()
        image = f"docker://{proxy.host}/lab/root:v1"
        self.assert_succeeds(self.slipway("run", image))
        proxy.stop()
        result = self.assert_succeeds(self.slipway("run", image))
        self.assertEqual(result.stdout, "small root\n")
        self.assertIn("as it was pulled before", result.stderr)
        self.assert_fails(self.slipway("pull", image), "cannot reach")

    def test_several_at_once_fetch_every_layer_once(self):
        layout = self.push_small(size=3_000_000)
        proxy = self.proxy(lambda method, path, *_: Answer(delay=0.3) if "/blobs/" in path else None)
        command = [program(), "pull", f"{proxy.host}/lab/small:v1"]
        started = [subprocess.Popen(command, env=self.env, stderr=subprocess.DEVNULL) for _ in range(6)]
        self.assertEqual([process.wait() for process in started], [0] * 6)
        for digest in self.layer_digests(layout):
            self.assertEqual(sum(digest in path for path in proxy.paths()), 1)
        self.check_blobs()


class Places(RegistryTest):
    """registries.conf, proxies and redirects: who is asked, and who gets credentials."""

    def registries(self, text):
        self.write("registries.conf", text)

    def test_mirrors_come_first_and_need_not_work(self):
        layout = self.push_small("mirrored/small:v1")
        broken, working = self.proxy(lambda *_: Answer(404)), self.proxy()
        self.registries(f"""
            unqualified-search-registries = ["example.com"]
            [[registry]]
            prefix = "lab.example/images"   # a comment
            location = "nowhere.invalid/mirrored"
            [[registry.mirror]]
            location = "{broken.host}/mirrored"
            [[registry.mirror]]
            location = "{working.host}/mirrored"
        """)
        result = self.pull("lab.example/images/small:v1")
        self.assertIn(f"the mirror {broken.host} does not help", result.stderr)
        self.assertEqual(len(broken.paths()), 2)  # the manifest and the list of tags
        self.check_same("lab.example/images/small:v1", layout)

    def test_a_location_and_a_blocked_prefix(self):
        self.push_small("moved/small:v1")
        self.registries(f'[[registry]]\nprefix = "lab.example"\nlocation = "{self.registry.host}/moved"\n'
                        '[[registry]]\nprefix = "lab.example/secret"\nblocked = true\n')
        self.pull("lab.example/small:v1")
        self.assert_fails(self.slipway("pull", "lab.example/secret/small:v1"), "is blocked", '"lab.example/secret"')
        self.registries("[[registry]]\nprefix = lab.example\n")
        self.assert_fails(self.slipway("pull", "lab.example/small:v1"), "line 2 of ", "registries.conf")

    def test_a_proxy_from_the_environment(self):
        self.push_small()
        proxy = self.proxy()
        self.registries('[[registry]]\nlocation = "registry.invalid:5000"\ninsecure = true\n')
        self.pull("registry.invalid:5000/lab/small:v1", env={"http_proxy": f"http://{proxy.host}", "https_proxy": f"http://{proxy.host}"})
        self.assertIn("http://registry.invalid:5000/v2/lab/small/manifests/v1", proxy.paths())

    def test_redirects_to_another_host_carry_no_credentials(self):
        layout = self.push_small()
        blobs = {}
        for digest in self.layer_digests(layout):
            with open(os.path.join(layout, "blobs/sha256", digest[7:]), "rb") as file:
                blobs[digest] = file.read()
        storage = self.proxy(lambda _, path, *__: Answer(200, {}, blobs[path.split("/")[-1].split("?")[0]]))

        def rule(_, path, headers, __):
            if headers.get("Authorization") != "Basic " + base64.b64encode(b"ann:secret").decode():
                return Answer(401, {"WWW-Authenticate": 'Basic realm="x"'})
            if any(digest in path for digest in blobs):
                return Answer(307, {"Location": f"http://{storage.host}/store/{path.split('/')[-1]}?signature=a%2Fb"})
        proxy = self.proxy(rule)
        self.write("home/auth.json", json.dumps({"auths": {proxy.host: {"auth": base64.b64encode(b"ann:secret").decode()}}}))
        self.pull(f"{proxy.host}/lab/small:v1", env={"REGISTRY_AUTH_FILE": self.path("home/auth.json")})
        self.assertEqual(len(storage.requests), 2)
        for _, path, headers in storage.requests:
            self.assertNotIn("Authorization", headers)
            self.assertTrue(path.endswith("?signature=a%2Fb"), path)

    def test_a_signed_address_that_expired_is_asked_for_anew(self):
        layout = self.push_small()
        storage = self.proxy(lambda method, path, *_: Answer(403) if "old" in path else None)
        given = []

        def rule(_, path, *__):
            if "/blobs/" in path and self.layer_digests(layout)[0] in path:
                given.append(path)
                return Answer(307, {"Location": f"http://{storage.host}{path}?" + ("old" if len(given) == 1 else "new")})
        proxy = self.proxy(rule)
        self.pull(f"{proxy.host}/lab/small:v1")
        self.assertEqual(len(given), 2)


class Tokens(RegistryTest):
    """Bearer authentication, by a token service of the test's own."""

    def serve(self, tokens, users=("ann", "secret"), uses=1000):
        """A proxy that wants tokens which it gives out itself, each good for so many requests."""
        left = {}

        def rule(method, path, headers, _):
            if path.startswith("/token"):
                tokens.append((method, path, headers.get("Authorization")))
                expected = "Basic " + base64.b64encode(":".join(users).encode()).decode()
                if users and headers.get("Authorization") != expected:
                    return Answer(401, body=b'{"errors":[{"code":"DENIED","message":"who are you?"}]}')
                token = f"token-{len(tokens)}"
                left["Bearer " + token] = uses
                return Answer(200, {"Content-Type": "application/json"}, json.dumps(
                    {"token": token} if len(tokens) % 2 else {"access_token": token, "expires_in": 60}).encode())
            given = headers.get("Authorization", "")
            if left.get(given, 0) <= 0:
                return Answer(401, {"WWW-Authenticate": f'Bearer realm="http://{proxy.host}/token",service="the, lab",'
                                                        f'scope="repository:lab/small:pull"'})
            left[given] -= 1
        proxy = self.proxy(rule)
        return proxy

    def auth_file(self, proxy, password="secret", place="auth.json", key=None):
        entry = {"auth": base64.b64encode(f"ann:{password}".encode()).decode()}
        return self.write(place, json.dumps({"auths": {key or proxy.host: entry}}))

    def test_a_token_is_fetched_with_the_password(self):
        self.push_small()
        tokens = []
        proxy = self.serve(tokens)
        self.pull(f"{proxy.host}/lab/small:v1", "--authfile", self.auth_file(proxy))
        self.assertEqual(len(tokens), 1)
        self.assertIn("service=the%2C%20lab", tokens[0][1])
        self.assertIn("scope=repository%3Alab%2Fsmall%3Apull", tokens[0][1])
        self.assertEqual([h.get("Authorization") for m, p, h in proxy.requests if p.startswith("/v2/")][1:], ["Bearer token-1"] * 5)

    def test_a_token_that_expires_is_renewed(self):
        self.push_small()
        tokens = []
        proxy = self.serve(tokens, uses=1)
        self.pull(f"{proxy.host}/lab/small:v1", "--authfile", self.auth_file(proxy))
        self.assertGreaterEqual(len(tokens), 3)

    def test_the_wrong_password_and_none(self):
        self.push_small()
        proxy = self.serve([])
        wrong = self.auth_file(proxy, "wrong")
        self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/small:v1", "--authfile", wrong), "does not let you have",
                          'the registry says: "who are you?"', "with the credentials of", "auth.json", "try: ")
        self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/small:v1"), "without credentials", "skopeo login")
        self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/small:v1", "--authfile", "nowhere"), 'no credentials file "nowhere"')

    def test_where_credentials_are_found(self):
        self.push_small()
        proxy = self.serve([])
        helper = self.write("bin/docker-credential-test", '#!/bin/sh\nread host\n[ "$1 $host" = "get %s" ] || { echo "credentials '
                            'not found"; exit 1; }\necho \'{"Username":"ann","Secret":"secret"}\'\n' % proxy.host)
        os.chmod(helper, 0o755)
        places = {
            "docker's file": (self.path("../home/.docker/config.json"), self.file_of(proxy.host)),
            "docker's old file": (self.path("../home/.dockercfg"), json.dumps(json.loads(self.file_of(proxy.host))["auths"])),
            "the run directory": (self.path("../run/containers/auth.json"), self.file_of(proxy.host)),
            "the configuration": (self.path("config/containers/auth.json"), self.file_of(f"https://{proxy.host}/v1/")),
            "a name space": (self.path("config/containers/auth.json"), self.file_of(proxy.host + "/lab", **{proxy.host: "wrong"})),
            "a helper of the host": (self.path("../home/.docker/config.json"), json.dumps({"credHelpers": {proxy.host: "test"}})),
            "a helper of all": (self.path("../home/.docker/config.json"), json.dumps({"credsStore": "test"})),
        }
        for name, (path, text) in places.items():
            with self.subTest(name):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    file.write(text)
                self.pull(f"{proxy.host}/lab/small:v1", env={"PATH": self.path("bin") + ":" + self.env["PATH"]})
                os.unlink(path)
                self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/small:v1"), "without credentials")

    def file_of(self, key, **others):
        auths = {key: "secret", **others}
        return json.dumps({"auths": {k: {"auth": base64.b64encode(f"ann:{v}".encode()).decode()} for k, v in auths.items()}})

    def test_an_identity_token(self):
        self.push_small()
        asked = []

        def rule(method, path, headers, _):
            if path == "/token":
                asked.append(method)
                return Answer(200, {}, b'{"access_token":"good"}')
            if headers.get("Authorization") != "Bearer good":
                return Answer(401, {"WWW-Authenticate": f'Bearer realm="http://{proxy.host}/token",service=x'})
        proxy = self.proxy(rule)
        file = self.write("auth.json", json.dumps({"auths": {proxy.host: {"identitytoken": "refresh"}}}))
        self.pull(f"{proxy.host}/lab/small:v1", "--authfile", file)
        self.assertEqual(asked, ["POST"])


class Tls(RegistryTest):
    tls, users = True, {"ann": "secret", "bob": "other"}

    def push_secret(self):
        layout = self.make_oci_layout([[Dir("etc"), File("etc/one", "1")], [File("two", "2")]])
        self.skopeo_push(layout, "lab/small:v1", "--dest-creds", "ann:secret")
        return layout

    def trust(self):
        directory = self.path(f"config/containers/certs.d/{self.registry.host}")
        os.makedirs(directory)
        os.symlink(self.certificates[0], os.path.join(directory, "ca.crt"))

    def test_certificates_and_passwords(self):
        layout = self.push_secret()
        image = f"{self.registry.host}/lab/small:v1"
        self.assert_fails(self.slipway("pull", image), "cannot reach " + self.registry.host, "certificate",
                          f"certs.d/{self.registry.host}/ca.crt", "--tls-verify=false")
        self.assert_fails(self.slipway("pull", "--tls-verify=false", image), "without credentials", "HTTP 401")
        self.trust()
        self.assert_fails(self.slipway("pull", image), "without credentials", f"skopeo login {self.registry.host}")
        login = run([require_program("skopeo"), "login", "--authfile", self.path("auth.json"), "--tls-verify=false", "-u", "ann", "-p",
                     "secret", self.registry.host], env=self.env)
        self.assert_succeeds(login)
        self.pull("--authfile", self.path("auth.json"), image)
        self.check_same(image, layout)
        self.assert_succeeds(self.slipway("inspect", f"docker://{image}", env={"REGISTRY_AUTH_FILE": self.path("auth.json")}))

    def test_push_with_a_password(self):
        layout = self.make_oci_layout([[File("one", "1")]])
        image = f"{self.registry.host}/lab/pushed:v1"
        self.trust()
        self.assert_fails(self.slipway("push", f"oci:{layout}", image), "without credentials")
        self.write("auth.json", json.dumps({"auths": {self.registry.host: {"username": "bob", "password": "other"}}}))
        self.assert_succeeds(self.slipway("push", "--authfile", self.path("auth.json"), f"oci:{layout}", image))
        self.pull("--authfile", self.path("auth.json"), image)

    def test_a_file_of_authorities_in_the_environment(self):
        self.push_secret()
        self.write("auth.json", json.dumps({"auths": {self.registry.host: {"username": "bob", "password": "other"}}}))
        self.pull("--authfile", self.path("auth.json"), f"{self.registry.host}/lab/small:v1", env={"SSL_CERT_FILE": self.certificates[0]})
        self.assert_fails(self.slipway("pull", f"127.0.0.1:{self.registry.port}/lab/small:v1"), "certificate")

    def test_redirects_from_https_to_http_are_refused(self):
        proxy = self.proxy(lambda *_: Answer(307, {"Location": "http://localhost:1/x"}), tls=self.certificates)
        self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/small:v1", env={"SSL_CERT_FILE": self.certificates[0]}),
                          "redirects to an address without encryption")

    def test_token_services_without_encryption_are_refused(self):
        proxy = self.proxy(lambda *_: Answer(401, {"WWW-Authenticate": 'Bearer realm="http://localhost:1/token"'}), tls=self.certificates)
        self.assert_fails(self.slipway("pull", f"{proxy.host}/lab/small:v1", env={"SSL_CERT_FILE": self.certificates[0]}),
                          "wants passwords to be sent without encryption")


if __name__ == "__main__":
    main()
