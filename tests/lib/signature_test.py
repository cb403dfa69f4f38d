# A test case with a registry, keys, and Sigstore bundles to put there.
# Must not: use Slipway to make what Slipway is to verify.
import http.client
import json
import os

from registry_server import put_blob, put_manifest
from registry_test import RegistryTest
from signing import make_bundle, make_key
from slipway_test import digest_of

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
BUNDLE = "application/vnd.dev.sigstore.bundle.v0.3+json"
EMPTY = "application/vnd.oci.empty.v1+json"


class SignatureTest(RegistryTest):
    def setUp(self):
        super().setUp()
        self.env["SLIPWAY_SITE"] = self.path("site")
        os.mkdir(self.path("site"))
        self.key, self.public = make_key(self.path("mine.pem"), "p256")
        self.other, self.other_public = make_key(self.path("other.pem"), "ed25519")
        self.image = f"docker://{self.registry.host}/lab/small:v1"

    def get(self, path, host=None):
        connection = http.client.HTTPConnection(host or self.registry.host, timeout=30)
        connection.request("GET", path, headers={"Accept": f"{MANIFEST}, {INDEX}"})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return body if response.status == 200 else None

    def digest(self, name="lab/small", tag="v1"):
        return digest_of(self.get(f"/v2/{name}/manifests/{tag}"))

    def signature_layers(self, name="lab/small", digest=None):
        tag = (digest or self.digest(name)).replace(":", "-") + ".sig"
        body = self.get(f"/v2/{name}/manifests/{tag}")
        return json.loads(body)["layers"] if body else []

    def sign(self, image=None, key=None, *options):
        return self.assert_succeeds(self.slipway("sign", image or self.image, "--key", key or self.key, *options))

    def verify(self, image=None, key=None, *options):
        return self.slipway("verify", image or self.image, "--key", key or self.public, *options)

    def attach_bundle(self, bundle, digest=None, host=None, name="lab/small", artifact_type=BUNDLE, listed_type=None):
        """Put a bundle as cosign does; `listed_type`: what the list of referrers says, None: leave the list alone."""
        host, digest = host or self.registry.host, digest or self.digest(name)
        size = len(self.get(f"/v2/{name}/manifests/{digest}"))
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": artifact_type,
            "config": {"mediaType": EMPTY, "digest": put_blob(host, name, b"{}"), "size": 2},
            "layers": [{"mediaType": artifact_type, "digest": put_blob(host, name, bundle), "size": len(bundle)}],
            "subject": {"mediaType": MANIFEST, "digest": digest, "size": size}}).encode()
        put_manifest(host, name, digest_of(manifest), manifest, MANIFEST)
        entry = {"mediaType": MANIFEST, "digest": digest_of(manifest), "size": len(manifest),
                 "artifactType": listed_type or artifact_type}
        if listed_type:
            tag = digest.replace(":", "-")
            there = json.loads(self.get(f"/v2/{name}/manifests/{tag}") or '{"manifests": []}')["manifests"]
            put_manifest(host, name, tag, {"schemaVersion": 2, "mediaType": INDEX, "manifests": there + [entry]}, INDEX)
        return entry["digest"]

    def bundle(self, key=None, digest=None, **more):
        return make_bundle(key or self.key, digest or self.digest(), self.temporary, **more)
