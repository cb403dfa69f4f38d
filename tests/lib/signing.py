# Keys and certificates made by the openssl program, and a seal read by its documentation alone.
# Must not: use Slipway's own code.
import base64
import hashlib
import json
import os
import struct
import subprocess

from slipway_test import require_program

CHUNK, NODE = 131072, 4096


def openssl(*arguments, input=None):
    result = subprocess.run([require_program("openssl"), *arguments], input=input, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
    if result.returncode != 0:
        raise AssertionError(f"openssl {' '.join(arguments)}: {result.stderr.decode()}")
    return result.stdout


def make_key(path, kind="ed25519"):
    """Write a private key to `path` and its public half to `path`.pub; returns both paths."""
    options = {"ed25519": ["-algorithm", "ed25519"],
               "p256": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
               "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]}[kind]
    openssl("genpkey", *options, "-out", path)
    openssl("pkey", "-in", path, "-pubout", "-out", path + ".pub")
    return path, path + ".pub"


def make_authority(path, name="Test Authority", kind="p256"):
    """Write an authority's key to `path` and its certificate to `path`.crt; returns the latter."""
    make_key(path, kind)
    openssl("req", "-x509", "-new", "-key", path, "-subj", f"/CN={name}", "-days", "30", "-out", path + ".crt",
            "-addext", "keyUsage=critical,keyCertSign")
    return path + ".crt"


def make_certificate(key, authority, name, usage="codeSigning", days="30"):
    """Write a certificate of `key` issued by `authority` (its key's path) to `key`.crt; returns its path."""
    request, extensions = key + ".csr", key + ".ext"
    openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request)
    with open(extensions, "w") as file:
        file.write(f"keyUsage=digitalSignature\nextendedKeyUsage={usage}\n")
    openssl("x509", "-req", "-in", request, "-CA", authority + ".crt", "-CAkey", authority, "-CAcreateserial",
            "-days", days, "-extfile", extensions, "-out", key + ".crt")
    return key + ".crt"


def sign(key, message, directory):
    """Sign with the openssl program (Ed25519, or ECDSA with SHA-256)."""
    kind, path = openssl("pkey", "-in", key, "-noout", "-text"), os.path.join(directory, "openssl-message")
    with open(path, "wb") as file:
        file.write(message)
    digest = [] if b"ED25519" in kind else ["-digest", "sha256"]
    signature = openssl("pkeyutl", "-sign", "-inkey", key, "-rawin", *digest, "-in", path)
    os.unlink(path)
    return signature


def make_bundle(key, digest, directory, certificate=None, predicate="https://sigstore.dev/cosign/sign/v1"):
    """A Sigstore bundle as cosign's: an envelope over an in-toto statement about an image's digest."""
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": digest.split(":")[1]}}],
                 "predicateType": predicate, "predicate": {}}
    payload, kind = json.dumps(statement).encode(), "application/vnd.in-toto+json"
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
    if certificate:
        der = openssl("x509", "-in", certificate, "-outform", "DER")
        material = {"certificate": {"rawBytes": base64.b64encode(der).decode()}, "tlogEntries": [{"logIndex": "1"}]}
    else:
        der = openssl("pkey", "-in", key, "-pubout", "-outform", "DER")
        material = {"publicKey": {"hint": base64.b64encode(hashlib.sha256(der).digest()).decode()}}
    return json.dumps({"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": material,
                       "dsseEnvelope": {"payload": base64.b64encode(payload).decode(), "payloadType": kind, "signatures": [
                           {"sig": base64.b64encode(sign(key, encoded, directory)).decode()}]}}).encode()


def make_keyless_certificate(key, authority, identity, days="30"):
    """A certificate as Fulcio's, with the identity as an alternative name and its issuer as an extension."""
    request, extensions = key + ".csr", key + ".ext"
    openssl("req", "-new", "-key", key, "-subj", "/", "-out", request)
    with open(extensions, "w") as file:
        file.write("keyUsage=critical,digitalSignature\nextendedKeyUsage=codeSigning\n"
                   f"subjectAltName=critical,email:{identity}\n"
                   "1.3.6.1.4.1.57264.1.1=ASN1:UTF8String:https://accounts.example\n")
    openssl("x509", "-req", "-in", request, "-CA", authority + ".crt", "-CAkey", authority, "-CAcreateserial",
            "-days", days, "-extfile", extensions, "-out", key + ".crt")
    return key + ".crt"


def is_good(public_key, message, signature, directory):
    """Ask openssl whether a signature is good (Ed25519 and ECDSA with SHA-256)."""
    paths = []
    for name, data in (("message", message), ("signature", signature)):
        paths.append(os.path.join(directory, "openssl-" + name))
        with open(paths[-1], "wb") as file:
            file.write(data)
    kind = openssl("pkey", "-pubin", "-in", public_key, "-noout", "-text")
    digest = [] if b"ED25519" in kind else ["-digest", "sha256"]
    result = subprocess.run([require_program("openssl"), "pkeyutl", "-verify", "-pubin", "-inkey", public_key, "-rawin",
                             *digest, "-in", paths[0], "-sigfile", paths[1]], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)
    for path in paths:
        os.unlink(path)
    return result.returncode == 0


class Seal:
    """The seal of a file's bytes, as docs/reference/signatures.md describes it; every sum is made here."""

    def __init__(self, data):
        self.used, = struct.unpack_from("<Q", data, 40)
        self.content = -(-self.used // 4096) * 4096
        header = data[self.content:self.content + 4096]
        (magic, chunk, node, content, self.tree_bytes, self.levels, zero, self.root, self.area_bytes, count, zero2,
         self.area_sum) = struct.unpack_from("<16sIIQQII32sQII32s", header)
        assert magic == b"SLIPWAY-SEAL-1\n\0" and (chunk, node, content) == (CHUNK, NODE, self.content), header[:48]
        assert zero == zero2 == 0 and header[128:4064] == bytes(3936)
        assert hashlib.sha256(header[:4064]).digest() == header[4064:]
        self.message = b"slipway seal, version 1\n" + header[:80]
        self.tree_at = self.content + 4096
        self.area_at = self.tree_at + self.tree_bytes
        area = data[self.area_at:self.area_at + self.area_bytes]
        assert hashlib.sha256(area).digest() == self.area_sum
        assert len(data) == self.area_at + -(-self.area_bytes // 4096) * 4096
        self.signatures = []
        for _ in range(count):
            length, text = struct.unpack_from("<II", area)
            self.signatures.append((area[8:40], area[40:40 + length], area[40 + length:40 + length + text]))
            area = area[40 + length + text:]
        assert area == b""

    def check_tree(self, data):
        """Make the tree anew and compare it with the one in the file."""
        content = data[:self.content]
        sums = [hashlib.sha256(content[i:i + CHUNK]).digest() for i in range(0, len(content), CHUNK)]
        tree, levels = b"", 0
        while True:
            level = b"".join(sums)
            level += bytes(-len(level) % NODE)
            tree += level
            levels += 1
            sums = [hashlib.sha256(level[i:i + NODE]).digest() for i in range(0, len(level), NODE)]
            if len(sums) == 1:
                break
        assert tree == data[self.tree_at:self.area_at] and levels == self.levels and sums[0] == self.root
