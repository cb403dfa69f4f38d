# Signatures of OCI images as cosign's specification has them, checked with openssl and by hand.
# Must not: use Slipway to read what Slipway wrote.
import base64
import json
import os
import shutil

from signing import is_good, make_authority, make_certificate, make_key
from slipway_test import Dir, File, Layout, SlipwayTest, digest_of, main

PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE = "dev.cosignproject.cosign/signature"


class Cosign(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.env["SLIPWAY_SITE"] = self.path("site")
        self.layout = self.make_oci_layout([[Dir("etc"), File("etc/one", os.urandom(5000))], [File("two", "2")]])
        self.image = f"oci:{self.layout}"
        with open(os.path.join(self.layout, "index.json")) as file:
            self.digest = json.load(file)["manifests"][0]["digest"]
        self.key, self.public = make_key(self.path("cosign.pem"), "p256")

    def blob(self, digest):
        with open(os.path.join(self.layout, "blobs/sha256", digest.split(":")[1]), "rb") as file:
            data = file.read()
        self.assertEqual(digest_of(data), digest)
        return data

    def index(self):
        with open(os.path.join(self.layout, "index.json")) as file:
            return json.load(file)["manifests"]

    def signature_layers(self):
        tag = self.digest.replace(":", "-") + ".sig"
        entry, = [item for item in self.index()
                  if item.get("annotations", {}).get("org.opencontainers.image.ref.name") == tag]
        manifest = json.loads(self.blob(entry["digest"]))
        config = json.loads(self.blob(manifest["config"]["digest"]))
        self.assertEqual(config["rootfs"]["diff_ids"], [layer["digest"] for layer in manifest["layers"]])
        return manifest["layers"]

    def sign(self, key=None, *options):
        return self.assert_succeeds(self.slipway("sign", self.image, "--key", key or self.key, *options))

    def verify(self, *options):
        return self.slipway("verify", self.image, *(options or ("--key", self.public)))

    def test_the_signature_is_cosigns(self):
        self.sign()
        layer, = self.signature_layers()
        self.assertEqual(layer["mediaType"], PAYLOAD)
        payload = self.blob(layer["digest"])
        self.assertEqual(json.loads(payload)["critical"]["image"]["docker-manifest-digest"], self.digest)
        self.assertEqual(json.loads(payload)["critical"]["type"], "cosign container image signature")
        signature = base64.b64decode(layer["annotations"][SIGNATURE], validate=True)
        self.assertTrue(is_good(self.public, payload, signature, self.temporary))
        facts = self.assert_succeeds(self.verify("--key", self.public, "--json")).json()
        self.assertEqual(facts["digest"], self.digest)

    def test_a_signature_that_another_tool_made(self):
        import subprocess
        payload = json.dumps({"critical": {"identity": {"docker-reference": "registry.example/one"},
                                           "image": {"docker-manifest-digest": self.digest},
                                           "type": "cosign container image signature"}, "optional": {"a": 1}}).encode()
        signature = subprocess.run(["openssl", "dgst", "-sha256", "-sign", self.key], input=payload,
                                   stdout=subprocess.PIPE, check=True).stdout
        layout = Layout.__new__(Layout)
        layout.directory, layout.manifests = self.layout, self.index()
        blob = layout.add_blob(payload, PAYLOAD)
        blob["annotations"] = {SIGNATURE: base64.b64encode(signature).decode()}
        config = layout.add_blob(b"{}", "application/vnd.oci.image.config.v1+json")
        manifest = layout.add_blob(json.dumps({"schemaVersion": 2, "config": config, "layers": [blob],
                                               "mediaType": "application/vnd.oci.image.manifest.v1+json"}).encode(),
                                   "application/vnd.oci.image.manifest.v1+json")
        manifest["annotations"] = {"org.opencontainers.image.ref.name": self.digest.replace(":", "-") + ".sig"}
        layout.manifests.append(manifest)
        layout.write_index()
        self.assert_succeeds(self.verify())

    def test_several_signers_and_the_image_stays_one_image(self):
        other, other_public = make_key(self.path("other.pem"), "ed25519")
        self.sign()
        self.sign(other)
        self.sign(other)  # the same again: Ed25519 gives the same bytes
        self.assertEqual(len(self.signature_layers()), 2)
        for public in (self.public, other_public):
            self.assert_succeeds(self.verify("--key", public))
        # The layout still has one image, tag or not, and can be converted.
        self.assert_succeeds(self.slipway("convert", self.image, self.path("tree")))
        self.assertTrue(os.path.exists(self.path("tree/two")))

    def test_certificates(self):
        authority = make_authority(self.path("ca.pem"))
        certificate = make_certificate(self.key, self.path("ca.pem"), "Jane")
        self.sign(None, "--cert", certificate)
        self.assertIn("certificate CN=Jane", self.assert_succeeds(self.verify("--ca", authority)).stdout)
        stranger = make_authority(self.path("stranger.pem"), "Stranger")
        self.assert_fails(self.verify("--ca", stranger), "nobody who is trusted here", "CN=Jane")

    def test_tampering(self):
        self.assert_fails(self.verify(), "is not signed", "try: sign it: slipway sign oci:")
        self.sign()
        other, other_public = make_key(self.path("other.pem"), "p256")
        self.assert_fails(self.verify("--key", other_public), "nobody who is trusted here")
        shutil.copytree(self.layout, self.path("whole"))
        for kind in ("layer", "config", "manifest", "payload", "signature", "signatures' manifest"):
            with self.subTest(kind):
                shutil.rmtree(self.layout)
                shutil.copytree(self.path("whole"), self.layout)
                manifest = json.loads(self.blob(self.digest))
                tag = self.digest.replace(":", "-") + ".sig"
                entry, = [item for item in self.index() if item["annotations"]["org.opencontainers.image.ref.name"] == tag]
                victim = {"layer": manifest["layers"][1]["digest"], "config": manifest["config"]["digest"],
                          "manifest": self.digest, "payload": self.signature_layers()[0]["digest"],
                          "signature": entry["digest"], "signatures' manifest": entry["digest"]}[kind]
                path = os.path.join(self.layout, "blobs/sha256", victim.split(":")[1])
                with open(path, "r+b") as file:
                    data = bytearray(file.read())
                    at = data.index(SIGNATURE.encode()) + 60 if kind == "signature" else len(data) // 2
                    data[at] = data[at] ^ 1
                    file.seek(0)
                    file.write(data)
                self.assert_fails(self.verify())

    def test_a_signature_is_not_taken_for_another_image(self):
        self.sign()
        layout = Layout.__new__(Layout)
        layout.directory, layout.manifests = self.layout, self.index()
        second = layout.add_image([[File("evil", "x")]], tag="second")
        signature, = [item for item in self.index()
                      if item["annotations"]["org.opencontainers.image.ref.name"].endswith(".sig")]
        stolen = dict(signature, annotations={"org.opencontainers.image.ref.name":
                                              second["digest"].replace(":", "-") + ".sig"})
        layout.manifests.append(stolen)
        layout.write_index()
        self.assert_fails(self.slipway("verify", f"oci:{self.layout}:second", "--key", self.public),
                          "a signature of another image")


if __name__ == "__main__":
    main()
