"""Signatures in registries: made and verified there, by Slipway and by cosign, each reading the other's.

Must not: reach any network but loopback, or count a test as passed because cosign was not there.
"""
import base64
import concurrent.futures
import json
import os
import shutil

from registry_server import Answer, ReferrersRule, put_manifest
from sid_root import sid_program
from signature_test import BUNDLE, EMPTY, MANIFEST, SignatureTest
from signing import make_authority, make_key, make_keyless_certificate
from slipway_test import Dir, File, digest_of, main, run


class InTheRegistry(SignatureTest):
    def test_signed_there_and_verified_without_a_layer(self):
        self.push_small("lab/small:v1")
        self.assert_fails(self.verify(), "is not signed", f"try: sign it: slipway sign {self.image}")
        told = self.sign()
        self.assertIn(self.digest(), told.stderr)
        proxy = self.proxy()
        text = self.assert_succeeds(self.verify(f"docker://{proxy.host}/lab/small:v1")).stdout
        self.assertIn("its layers were not fetched", text)
        self.assertRegex(text, rf"(?m)^digest +{self.digest()}$")
        self.assertRegex(text, r"(?m)^signed +key sha256:[0-9a-f]{64}$")
        layers = [path for path in proxy.paths() if any(digest in path for digest in self.layer_digests(
            self.path("layout-lab-small-v1")))]
        self.assertEqual(layers, [])
        facts = self.assert_succeeds(self.verify(None, None, "--json")).json()
        self.assertEqual((facts["digest"], facts["layers_checked"]), (self.digest(), False))
        self.assertEqual(json.loads(self.get(f"/v2/lab/small/blobs/{self.signature_layers()[0]['digest']}"))["critical"]["image"],
                         {"docker-manifest-digest": self.digest()})
        self.assert_fails(self.verify(None, self.other_public), "nobody who is trusted here")
        self.assert_fails(self.verify(f"docker://{self.registry.host}/lab/small:v9"), "has no image")
        self.assert_fails(self.slipway("sign", f"docker://{self.registry.host}/lab/small:v9", "--key", self.key), "has no image")

    def test_signers_at_the_same_time_do_not_lose_each_other(self):
        self.push_small("lab/small:v1")
        keys = [make_key(self.path(f"key-{i}.pem"), "p256" if i % 2 else "ed25519") for i in range(5)]
        with concurrent.futures.ThreadPoolExecutor(len(keys)) as pool:
            results = list(pool.map(lambda key: self.slipway("sign", self.image, "--key", key[0]), keys))
        for result in results:
            self.assert_succeeds(result)
        # A tag cannot promise all; whoever wrote last has looked again, and lost nobody whom he saw.
        self.assertGreaterEqual(len(self.signature_layers()), 1)
        for key, _ in keys:
            self.sign(key=key)
        for _, public in keys:
            self.assert_succeeds(self.verify(key=public))

    def test_what_somebody_writes_in_between_stays(self):
        """Between our reading of the tag and our writing, and right after it, another's signature comes."""
        self.push_small("lab/small:v1")
        tag = self.digest().replace(":", "-") + ".sig"
        self.sign(key=self.other)
        foreign = self.get(f"/v2/lab/small/manifests/{tag}")
        self.assertEqual(self.slipway("sign", self.image, "--key", self.key).status, 0)
        self.assertEqual(len(self.signature_layers()), 2)
        overwritten = []

        def rule(method, path, headers, number):
            if method == "PUT" and path.endswith(tag) and not overwritten:
                def change(status, answer, data):  # ours has just arrived; theirs takes its place
                    put_manifest(self.registry.host, "lab/small", tag, foreign, MANIFEST)
                    return status, answer, data
                overwritten.append(path)
                return Answer(change=change)
            return None
        third, third_public = make_key(self.path("third.pem"), "p256")
        proxy = self.proxy(rule)
        self.sign(f"docker://{proxy.host}/lab/small:v1", third)
        self.assertEqual(len(overwritten), 1)
        for public in (self.other_public, third_public):
            self.assert_succeeds(self.verify(key=public))

    def test_a_registry_that_mixes_two_writers_up_is_asked_again(self):
        """Debian's docker-registry, once in many times, when two write a tag at once; whoever is always refused is told."""
        self.push_small("lab/small:v1")
        tag = self.digest().replace(":", "-") + ".sig"
        mixed = json.dumps({"errors": [{"code": "DIGEST_INVALID", "message": "provided digest did not match uploaded content"}]})
        for times, status in ((2, 0), (100, 125)):
            refused = []

            def rule(method, path, headers, number):
                if method != "PUT" or not path.endswith(tag) or len(refused) == times:
                    return None
                refused.append(path)
                return Answer(400, body=mixed.encode())
            proxy = self.proxy(rule)
            key, public = make_key(self.path(f"mixed-{times}.pem"), "p256")
            result = self.slipway("sign", f"docker://{proxy.host}/lab/small:v1", "--key", key)
            self.assert_status(result, status)
            if status == 0:
                self.assertEqual(len(refused), 2)
                self.assert_succeeds(self.verify(key=public))
            else:
                self.assertIn("did not match uploaded content", result.stderr)

    def test_tampering_in_the_registry(self):
        self.push_small("lab/small:v1")
        self.sign()
        self.attach_bundle(self.bundle(self.other), listed_type=BUNDLE)
        self.assert_succeeds(self.verify(key=self.other_public))
        payload = self.signature_layers()[0]["digest"]
        for victim, key in ((payload, self.public), (digest_of(self.bundle_bytes()), self.other_public)):
            def change(status, answer, data):
                return status, answer, data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]
            proxy = self.proxy(lambda method, path, headers, number, victim=victim:
                               Answer(change=change) if path.endswith(victim) else None)
            result = self.verify(f"docker://{proxy.host}/lab/small:v1", key)
            self.assert_status(result, 125)
            self.assertIn("sent something else", result.stderr)

    def bundle_bytes(self):
        tag = self.digest().replace(":", "-")
        manifest, = json.loads(self.get(f"/v2/lab/small/manifests/{tag}"))["manifests"]
        layer, = json.loads(self.get(f"/v2/lab/small/manifests/{manifest['digest']}"))["layers"]
        return self.get(f"/v2/lab/small/blobs/{layer['digest']}")


class Bundles(SignatureTest):
    def setUp(self):
        super().setUp()
        self.push_small("lab/small:v1")

    def test_by_the_tag_and_by_the_interface(self):
        self.attach_bundle(self.bundle(), listed_type=EMPTY)  # as cosign 3 lists them
        self.attach_bundle(b'{"spdxVersion": "SPDX-2.3"}', artifact_type="application/spdx+json",
                           listed_type="application/spdx+json")
        self.assert_succeeds(self.verify())
        self.assert_fails(self.verify(key=self.other_public), "nobody who is trusted here", "not among the trusted keys")
        rule = ReferrersRule(self.registry, page=1)
        proxy = self.proxy(rule)
        image = f"docker://{proxy.host}/lab/small:v1"
        self.assert_succeeds(self.verify(image))
        self.assertGreater(len(rule.asked), 1)  # page by page
        self.assertFalse([path for path in proxy.paths() if path.endswith(self.digest().replace(":", "-"))])
        listed = self.assert_succeeds(self.slipway("inspect", "--referrers", "--json", image)).json()
        self.assertEqual(sorted(one["artifact_type"] for one in listed), sorted([BUNDLE, "application/spdx+json"]))
        only = self.assert_succeeds(self.slipway("inspect", "--referrers", "--artifact-type", BUNDLE, self.image)).stdout
        self.assertEqual(len(only.splitlines()), 1)
        self.assertIn(BUNDLE, only)
        rule.filters = False
        rule.page = 100
        only = self.slipway("inspect", "--referrers", "--artifact-type", "application/spdx+json", image).stdout
        self.assertEqual(len(only.splitlines()), 1)
        self.assert_fails(self.slipway("inspect", "--referrers", "/"), "asks a registry")

    def test_not_a_signature_of_this_image(self):
        self.attach_bundle(self.bundle(predicate="https://slsa.dev/provenance/v1"), listed_type=BUNDLE)
        self.assert_fails(self.verify(), "attests", "no signature of the image")
        self.attach_bundle(self.bundle(digest="sha256:" + "0" * 64), listed_type=BUNDLE)
        self.assert_fails(self.verify(), "a signature of another image")
        self.attach_bundle(b"junk", listed_type=BUNDLE)
        self.assert_fails(self.verify(), "cannot be understood")
        self.attach_bundle(self.bundle(), listed_type=BUNDLE)
        self.assert_succeeds(self.verify())

    def test_keyless(self):
        authority = make_authority(self.path("fulcio.pem"), "Test Fulcio")
        certificate = make_keyless_certificate(self.key, self.path("fulcio.pem"), "jane@example.org")
        self.attach_bundle(self.bundle(certificate=certificate), listed_type=BUNDLE)
        self.assert_fails(self.verify(key=self.other_public), "signed by jane@example.org, not believed: keyless signatures need "
                          "the transparency log, which Slipway does not ask")
        result = self.assert_succeeds(self.slipway("verify", self.image, "--ca", authority))
        self.assertIn("certificate", result.stdout)

    def test_pushed_with_the_image_the_list_keeps_what_others_put_there(self):
        self.attach_bundle(self.bundle(), listed_type=BUNDLE)
        self.pull("--signatures", f"{self.registry.host}/lab/small:v1", "-t", "mine")
        digest = self.digest()
        for through, interface in ((self.registry.host, False), (None, True)):
            name = "lab/interface" if interface else "lab/tag"
            self.skopeo_push(self.path("layout-lab-small-v1"), name + ":v1")
            others = self.attach_bundle(b"{}", name=name, artifact_type="application/other", listed_type="application/other")
            proxy = None if through else self.proxy(ReferrersRule(self.registry))
            host = through or proxy.host
            told = self.assert_succeeds(self.slipway("push", "--json", "mine", f"docker://{host}/{name}:v1")).json()
            self.assertEqual(told["signatures"], 1)
            listed = json.loads(self.get(f"/v2/{name}/manifests/{digest.replace(':', '-')}"))["manifests"]
            self.assertEqual([one["artifactType"] for one in listed], ["application/other", BUNDLE])
            self.assertEqual(listed[0]["digest"], others)
            self.assert_succeeds(self.verify(f"docker://{self.registry.host}/{name}:v1"))
            if proxy:  # the registry said that it noted the subject: its list is its own business
                self.assertFalse([path for path in proxy.paths("PUT") if path.endswith(digest.replace(":", "-"))])
            self.assert_succeeds(self.slipway("push", "mine", f"docker://{host}/{name}:v1"))  # the same again
            again = json.loads(self.get(f"/v2/{name}/manifests/{digest.replace(':', '-')}"))["manifests"]
            self.assertEqual(again, listed)

    def test_a_tag_that_is_no_list_is_left_alone(self):
        self.attach_bundle(self.bundle(), listed_type=BUNDLE)
        self.pull("--signatures", f"{self.registry.host}/lab/small:v1", "-t", "mine")
        self.skopeo_push(self.path("layout-lab-small-v1"), "lab/odd:v1")
        self.skopeo_push(self.path("layout-lab-small-v1"), "lab/odd:" + self.digest().replace(":", "-"))
        self.assert_fails(self.slipway("push", "mine", f"docker://{self.registry.host}/lab/odd:v1"), "is no list of referrers")


class WithPasswords(SignatureTest):
    tls, users = True, {"jane": "secret"}

    def test_tls_and_htpasswd(self):
        auth = base64.b64encode(b"jane:secret").decode()
        authfile = self.write("auth.json", json.dumps({"auths": {self.registry.host: {"auth": auth}}}))
        self.env["REGISTRY_AUTH_FILE"] = authfile
        os.makedirs(self.path(f"config/containers/certs.d/{self.registry.host}"))
        shutil.copy(self.certificates[0], self.path(f"config/containers/certs.d/{self.registry.host}/ca.crt"))
        layout = self.make_oci_layout([[Dir("etc"), File("etc/one", "1")]])
        self.sign("oci:" + layout)
        image = f"docker://{self.registry.host}/lab/small:v1"
        self.assert_succeeds(self.slipway("push", "oci:" + layout, image))
        self.assert_succeeds(self.verify(image))
        self.sign(image, self.other)
        self.assert_succeeds(self.verify(image, self.other_public))
        self.pull(f"{self.registry.host}/lab/small:v1", "-t", "mine")
        self.assert_succeeds(self.verify("mine", self.other_public))
        del self.env["REGISTRY_AUTH_FILE"]
        self.assert_fails(self.verify(image), "without credentials", "log in")
        self.assert_fails(self.slipway("sign", image, "--key", self.key), "without credentials", "log in")
        self.assert_succeeds(self.verify(image, None, "--authfile", authfile))


class WithCosign(SignatureTest):
    def setUp(self):
        super().setUp()
        self.push_small("lab/small:v1")
        self.cosign = sid_program("cosign", "cosign")
        self.env["COSIGN_PASSWORD"] = ""
        self.assert_succeeds(self.run_cosign("import-key-pair", "--key", self.key, "-o", self.path("cosign")))
        self.write("signing.json", '{"mediaType":"application/vnd.dev.sigstore.signingconfig.v0.2+json"}')
        self.pinned = f"{self.registry.host}/lab/small@{self.digest()}"

    def run_cosign(self, *arguments):
        return run([self.cosign, *arguments], env=self.env, cwd=self.temporary)

    def test_cosign_verifies_ours(self):
        self.sign(key=self.other)
        self.sign()
        result = self.run_cosign("verify", "--key", self.path("cosign.pub"), "--insecure-ignore-tlog", "--allow-http-registry",
                                 self.pinned)
        self.assert_succeeds(result)
        self.assertIn(self.digest(), result.stdout)

    def test_ours_verifies_cosigns_bundle_and_old_signature(self):
        self.assert_succeeds(self.run_cosign("sign", "--key", self.path("cosign.key"), "--yes", "--allow-http-registry",
                                             "--signing-config", self.path("signing.json"), self.pinned))
        self.assertEqual(self.signature_layers(), [])
        self.assert_succeeds(self.verify(key=self.path("cosign.pub")))
        self.pull("--signatures", f"{self.registry.host}/lab/small:v1", "-t", "mine")
        self.assert_succeeds(self.verify("mine"))
        self.sign(key=self.other)
        self.assert_succeeds(self.run_cosign("sign", "--key", self.path("cosign.key"), "--yes", "--allow-http-registry",
                                             "--new-bundle-format=false", "--use-signing-config=false", "--tlog-upload=false",
                                             self.pinned))
        self.assertEqual(len(self.signature_layers()), 2)
        facts = self.assert_succeeds(self.verify(None, None, "--json")).json()
        self.assertEqual((len(facts["signers"]), len(facts["ignored"])), (2, 1))

    def test_cosign_verifies_what_push_sent(self):
        self.assert_succeeds(self.run_cosign("sign", "--key", self.path("cosign.key"), "--yes", "--allow-http-registry",
                                             "--signing-config", self.path("signing.json"), self.pinned))
        self.pull("--signatures", f"{self.registry.host}/lab/small:v1", "-t", "mine")
        self.assert_succeeds(self.slipway("push", "mine", f"docker://{self.registry.host}/lab/copy:v1"))
        self.assert_succeeds(self.run_cosign("verify", "--key", self.path("cosign.pub"), "--insecure-ignore-tlog",
                                             "--allow-http-registry", f"{self.registry.host}/lab/copy@{self.digest()}"))


if __name__ == "__main__":
    main()
