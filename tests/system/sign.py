# Signatures in squashfs files: made, verified, tampered with, and checked block by block while an image runs.
# Must not: let an image count as verified because a tool was missing.
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from signing import CHUNK, Seal, is_good, make_authority, make_certificate, make_key
from slipway_test import SlipwayTest, main, program, require_program
from small_root import make_root, make_squashfs


class SignTest(SlipwayTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="slipway-system-")
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.key, cls.public = make_key(os.path.join(cls.shared, "key.pem"))
        cls.other_key, cls.other_public = make_key(os.path.join(cls.shared, "other.pem"), "p256")
        root = make_root(os.path.join(cls.shared, "root"))
        with open(os.path.join(root, "usr/share/large"), "wb") as file:  # more than 128 chunks: two levels of the tree
            for _ in range(18):
                file.write(os.urandom(1 << 20))
        cls.plain = make_squashfs(root, os.path.join(cls.shared, "plain.sqfs"))
        with open(cls.plain, "rb") as file:
            cls.plain_bytes = file.read()
        cls.root = root

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("site"))
        self.env["SLIPWAY_SITE"] = self.path("site")
        self.image = self.path("image.sqfs")
        shutil.copy(self.plain, self.image)

    def sign(self, *options, image=None, key=None):
        return self.slipway("sign", image or self.image, "--key", key or self.key, *options)

    def verify(self, *options, image=None, key=None):
        keys = [] if "--ca" in options else ["--key", key or self.public]
        return self.slipway("verify", image or self.image, *keys, *options)

    def read(self, path=None):
        with open(path or self.image, "rb") as file:
            return file.read()

    def flip(self, at, path=None):
        with open(path or self.image, "r+b") as file:
            file.seek(at)
            byte = file.read(1)
            file.seek(at)
            file.write(bytes([byte[0] ^ 0x10]))


class Format(SignTest):
    def test_the_file_stays_a_squashfs_and_its_seal_is_as_documented(self):
        os.chmod(self.image, 0o640)
        self.assert_succeeds(self.sign())
        data = self.read()
        self.assertTrue(data.startswith(self.plain_bytes[:96]))
        seal = Seal(data)
        self.assertEqual(data[:seal.content], self.plain_bytes.ljust(seal.content, b"\0")[:seal.content])
        self.assertEqual(seal.levels, 2)
        seal.check_tree(data)
        (key_id, signature, certificates), = seal.signatures
        self.assertEqual(certificates, b"")
        self.assertTrue(is_good(self.public, seal.message, signature, self.temporary))
        self.assertFalse(is_good(self.public, seal.message + b"x", signature, self.temporary))
        self.assertEqual(os.stat(self.image).st_mode & 0o7777, 0o640)
        self.assertEqual(os.listdir(self.path("")), sorted(["image.sqfs", "site"]))
        subprocess.run([require_program("unsquashfs"), "-q", "-n", "-d", self.path("out"), self.image, "etc/image"],
                       check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(self.read(self.path("out/etc/image")), b"small root\n")
        self.assertIn("squashfs", self.assert_succeeds(self.slipway("inspect", self.image)).stdout)
        self.assert_succeeds(self.slipway("convert", self.image, self.path("tree")))

    def test_same_key_same_bytes(self):
        self.assert_succeeds(self.sign())
        first = self.read()
        self.assert_succeeds(self.sign())  # a second time adds nothing
        self.assertEqual(self.read(), first)

    def test_two_signers(self):
        self.assert_succeeds(self.sign())
        self.assert_succeeds(self.sign(key=self.other_key))
        self.assertEqual(len(Seal(self.read()).signatures), 2)
        for public in (self.public, self.other_public):
            facts = self.assert_succeeds(self.verify("--json", key=public)).json()
            self.assertEqual((len(facts["signers"]), len(facts["ignored"])), (1, 1), facts)

    def test_what_verify_says(self):
        self.assert_succeeds(self.sign())
        text = self.assert_succeeds(self.verify()).stdout
        self.assertRegex(text, r"(?m)^signed +key sha256:[0-9a-f]{64}$")
        self.assertRegex(text, r"(?m)^digest +sha256:[0-9a-f]{64}$")
        facts = self.verify("--json").json()
        self.assertEqual(facts["content_bytes"], Seal(self.read()).content)

    def test_a_kill_leaves_the_file_as_it_was_or_signed(self):
        for delay in (0.001, 0.005, 0.01, 0.02, 0.05, 0.1):
            shutil.copy(self.plain, self.image)
            process = subprocess.Popen([program(), "sign", self.image, "--key", self.key], env=self.env,
                                       stderr=subprocess.DEVNULL)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.wait()
            data = self.read()
            if data != self.plain_bytes:
                self.assert_succeeds(self.verify())
            # Between link and rename a second name may stay; nothing else.
            left = [name for name in os.listdir(self.path("")) if name not in ("image.sqfs", "site")]
            self.assertLessEqual(len(left), 1, left)
            for name in left:
                os.unlink(self.path(name))

    def test_errors(self):
        self.assert_fails(self.verify(), "is not signed", "try: sign it: slipway sign")
        self.assert_succeeds(self.sign())
        self.assert_fails(self.verify(key=self.other_public), "signed by nobody who is trusted here", "not among the trusted")
        self.assert_fails(self.verify(key=self.key), "a private key, not a public one", "try: take its public half")
        self.assert_fails(self.verify(key=self.write("junk", "junk")), "neither a public key nor a certificate")
        self.assert_fails(self.slipway("verify", self.image), "there is no key to verify", "trust.d", "try: ")
        self.assert_fails(self.sign(key=self.public), "cannot read a private key", "try: make one: openssl genpkey")
        rsa, _ = make_key(self.path("rsa.pem"), "rsa")
        self.assert_fails(self.sign(key=rsa), "neither an Ed25519 key nor an ECDSA key on P-256")
        self.assert_fails(self.sign(image=self.root), "cannot sign", "try: make a file of it first")
        self.assert_fails(self.verify(image=self.root), "no signature that can be verified")
        self.assert_fails(self.sign(key=self.path("absent")), "absent")
        cosign = self.write("cosign.key", "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n")
        self.assert_fails(self.sign(key=cosign), "cosign's own format", "try: sign with a PEM key")
        with open(self.image, "ab") as file:
            file.write(b"x" * 100)
        self.assert_fails(self.sign(), "damaged")

    def test_something_behind_the_squashfs_is_not_overwritten(self):
        with open(self.image, "ab") as file:
            file.write(b"verity data of somebody else".ljust(8192, b"\1"))
        before = self.read()
        self.assert_fails(self.sign(), "something lies behind the squashfs")
        self.assertEqual(self.read(), before)
        with open(self.image, "wb") as file:  # zeros are padding
            file.write(self.plain_bytes.ljust(len(self.plain_bytes) + (1 << 20), b"\0"))
        self.assert_succeeds(self.sign())
        self.assert_succeeds(self.verify())

    def test_an_encrypted_key(self):
        key = self.path("locked.pem")
        subprocess.run([require_program("openssl"), "pkey", "-in", self.key, "-aes256", "-passout", "pass:secret",
                        "-out", key], check=True)
        self.assert_fails(self.sign(key=key), "try: put its password into SLIPWAY_KEY_PASSWORD")
        self.env["SLIPWAY_KEY_PASSWORD"] = "wrong"
        self.assert_fails(self.sign(key=key), "cannot read a private key")
        self.env["SLIPWAY_KEY_PASSWORD"] = "secret"
        self.assert_succeeds(self.sign(key=key))
        self.assert_succeeds(self.verify())

    def test_trust_directories(self):
        self.assert_succeeds(self.sign())
        os.mkdir(self.path("site/trust.d"))
        shutil.copy(self.other_public, self.path("site/trust.d/other.pem"))
        self.assert_fails(self.slipway("verify", self.image), "nobody who is trusted here")
        shutil.copy(self.public, self.path("site/trust.d/ours.pub"))
        self.assert_succeeds(self.slipway("verify", self.image))
        os.unlink(self.path("site/trust.d/ours.pub"))
        own = os.path.join(self.env["HOME"], ".config/slipway/trust.d")
        os.makedirs(own)
        shutil.copy(self.public, own + "/me.pem")
        self.env.pop("XDG_CONFIG_HOME", None)
        self.assert_succeeds(self.slipway("verify", self.image))


class Certificates(SignTest):
    def setUp(self):
        super().setUp()
        self.ca = make_authority(self.path("ca.pem"))
        self.signer, _ = make_key(self.path("signer.pem"))

    def test_a_certificate_of_the_authority(self):
        for kind in ("ed25519", "p256"):
            shutil.copy(self.plain, self.image)
            key, _ = make_key(self.path(kind), kind)
            certificate = make_certificate(key, self.path("ca.pem"), "Jane " + kind)
            self.assert_succeeds(self.sign("--cert", certificate, key=key))
            self.assertIn(f"certificate CN=Jane {kind}", self.assert_succeeds(self.verify("--ca", self.ca)).stdout)
            stranger = make_authority(self.path("stranger.pem"), "Stranger")
            self.assert_fails(self.verify("--ca", stranger), "nobody who is trusted here", f"CN=Jane {kind}: ")

    def test_what_a_certificate_may_not(self):
        certificate = make_certificate(self.signer, self.path("ca.pem"), "web server", "serverAuth")
        self.assert_succeeds(self.sign("--cert", certificate, key=self.signer))
        self.assert_fails(self.verify("--ca", self.ca), "issued for other uses than signing")
        other, _ = make_key(self.path("another.pem"))
        self.assert_fails(self.sign("--cert", certificate, key=other), "is not this key's")
        self.assert_fails(self.sign("--cert", self.signer, key=self.signer), "holds no certificate")

    def test_a_certificate_in_between(self):
        between, _ = make_key(self.path("between.pem"), "p256")
        request = self.path("between.csr")
        openssl = require_program("openssl")
        subprocess.run([openssl, "req", "-new", "-key", between, "-subj", "/CN=Between", "-out", request], check=True)
        extensions = self.write("between.ext", "basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n")
        subprocess.run([openssl, "x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self.path("ca.pem"),
                        "-CAcreateserial", "-days", "30", "-extfile", extensions, "-out", between + ".crt"], check=True,
                       stderr=subprocess.DEVNULL)
        certificate = make_certificate(self.signer, between, "Jane")
        self.assert_succeeds(self.sign("--cert", certificate, key=self.signer))
        self.assert_fails(self.verify("--ca", self.ca), "CN=Jane: ")  # the link is missing
        self.assert_succeeds(self.verify("--ca", between + ".crt"))   # an authority that is named is believed
        chain = self.write("chain.crt", self.read(certificate) + self.read(between + ".crt"))
        self.assert_succeeds(self.sign("--cert", chain, key=self.signer))
        self.assert_succeeds(self.verify("--ca", self.ca))


class Tampering(SignTest):
    def test_every_kind_of_byte(self):
        self.assert_succeeds(self.sign())
        data = self.read()
        seal = Seal(data)
        inodes, directories, fragments = struct.unpack_from("<QQQ", data, 64)
        first_list, = struct.unpack_from("<Q", data, fragments)
        fragment, = struct.unpack_from("<Q", data, first_list + 2)  # a list of 16 bytes an entry, stored as it is or not
        flag, = struct.unpack_from("<H", data, first_list)
        if not flag & 0x8000:
            fragment = inodes - 100  # compressed: the last data block before the tables is a fragment's
        self.assertGreater(seal.content - seal.used, 0, "the test needs padding")
        places = {"magic of the superblock": 1, "superblock's modification time": 8, "superblock's bytes_used": 41,
                  "first data block": 96, "data in the middle": inodes // 2, "a fragment": fragment + 1,
                  "inode table": inodes + 10, "directory table": directories + 10, "fragment table": fragments,
                  "last byte used": seal.used - 1, "padding": seal.used, "padding's end": seal.content - 1,
                  "seal's magic": seal.content, "seal's chunk size": seal.content + 16,
                  "seal's content size": seal.content + 24, "seal's tree size": seal.content + 32,
                  "seal's levels": seal.content + 40, "root": seal.content + 50, "signatures' size": seal.content + 80,
                  "signatures' number": seal.content + 88, "signatures' sum": seal.content + 100,
                  "seal's unused bytes": seal.content + 2000, "seal's checksum": seal.content + 4090,
                  "first leaf": seal.tree_at, "a leaf": seal.tree_at + 77, "padding of a level": seal.area_at - 4097,
                  "upper node": seal.area_at - 4096, "padding of the upper node": seal.area_at - 1,
                  "signature's length": seal.area_at, "key's id": seal.area_at + 8, "signature": seal.area_at + 41,
                  "signature's last byte": seal.area_at + seal.area_bytes - 1,
                  "behind the signature": seal.area_at + seal.area_bytes, "last byte": len(data) - 1}
        for name, at in places.items():
            with self.subTest(name, at=at):
                self.flip(at)
                result = self.assert_fails(self.verify())
                self.assertIn("image.sqfs", result.stderr)
                self.flip(at)
        self.assert_succeeds(self.verify())

    def test_cut_and_longer_files(self):
        self.assert_succeeds(self.sign())
        data = self.read()
        seal = Seal(data)
        for size in (len(data) - 1, seal.area_at + 10, seal.tree_at + 100, seal.content + 100, seal.content + 1):
            self.write("cut.sqfs", data[:size])
            self.assert_fails(self.verify(image=self.path("cut.sqfs")))
        self.assert_fails(self.verify(image=self.write("cut.sqfs", data[:seal.content])), "is not signed")
        self.assert_fails(self.verify(image=self.write("long.sqfs", data + bytes(4096))), "damaged")

    def test_a_signature_of_another_image(self):
        self.assert_succeeds(self.sign())
        data = self.read()
        seal = Seal(data)
        changed = bytearray(data)
        changed[5000] ^= 1
        # Somebody makes a new tree, and keeps the old signature.
        self.write("forged.sqfs", bytes(changed[:seal.content]))
        forger, _ = make_key(self.path("forger.pem"))
        self.assert_succeeds(self.sign(image=self.path("forged.sqfs"), key=forger))
        forged = bytearray(self.read(self.path("forged.sqfs")))
        forged[seal.area_at:] = data[seal.area_at:]
        import hashlib
        area = bytes(forged[seal.area_at:seal.area_at + seal.area_bytes])
        forged[seal.content + 96:seal.content + 128] = hashlib.sha256(area).digest()
        forged[seal.content + 4064:seal.content + 4096] = hashlib.sha256(
            bytes(forged[seal.content:seal.content + 4064])).digest()
        self.write("forged.sqfs", bytes(forged))
        self.assert_fails(self.verify(image=self.path("forged.sqfs")), "the signature is not good")


class Running(SignTest):
    def run_image(self, *command, options=()):
        return self.slipway("run", f"--verify={self.public}", *options, self.image, "--", *command)

    def place_of(self, name):
        """Where a file of random bytes lies in the squashfs, which stores it as it is."""
        with open(os.path.join(self.root, name), "rb") as file:
            return self.read().index(file.read(4096))

    def test_a_changed_block_is_an_error_for_who_reads_it(self):
        self.assert_succeeds(self.sign())
        self.assert_succeeds(self.run_image("true"))
        at = self.place_of("usr/share/large") + 5 * (1 << 20)
        self.flip(at)
        good = self.assert_succeeds(self.run_image("cat", "/etc/image"))
        self.assertEqual(good.stdout, "small root\n")
        result = self.run_image("sha256sum", "/usr/share/large")
        self.assert_status(result, 1)
        self.assertIn("Input/output error", result.stderr)
        first = at // CHUNK * CHUNK
        self.assertIn(f"was changed after it was signed: bytes {first} to {first + CHUNK - 1} differ", result.stderr)
        self.assert_succeeds(self.slipway("run", self.image, "--", "sha256sum", "/usr/share/large"))

    def test_what_is_read_before_the_start_is_verified_too(self):
        self.assert_succeeds(self.sign())
        inodes, = struct.unpack_from("<Q", self.read(), 64)
        for at in (9, inodes + 20):
            self.flip(at)
            self.assert_fails(self.run_image("true"), "was changed after it was signed")
            self.flip(at)
        seal = Seal(self.read())
        self.flip(seal.content + 50)
        self.assert_fails(self.run_image("true"), "damaged")

    def test_every_file_reads_the_same(self):
        self.assert_succeeds(self.sign())
        script = "cd /usr; for f in bin/* share/*; do sha256sum $f; done"
        verified = self.assert_succeeds(self.run_image("sh", "-c", script))
        self.assertEqual(verified.stdout, self.assert_succeeds(
            self.slipway("run", self.image, "--", "sh", "-c", script)).stdout)
        self.assertGreater(verified.stdout.count("\n"), 40)

    def test_refusals(self):
        self.assert_fails(self.run_image("true"), "is not signed")
        self.assert_succeeds(self.sign())
        self.assert_fails(self.slipway("run", f"--verify={self.other_public}", self.image, "true"),
                          "nobody who is trusted here")
        self.assert_fails(self.slipway("run", "--verify", self.image, "true"), "there is no key to verify")
        self.assert_fails(self.slipway("run", f"--verify={self.public}", self.root, "true"),
                          "only a signed squashfs file", "try: ")

    def test_the_plan_says_it_and_sessions_do_not_mix(self):
        self.assert_succeeds(self.sign())
        digest = self.verify("--json").json()["digest"]
        plan = self.assert_succeeds(self.run_image("true", options=["--dry-run"])).json()
        self.assertEqual(plan["mounts"][0]["seal"], digest)
        self.assertNotIn("seal", self.slipway("run", "--dry-run", self.image, "true").json()["mounts"][0])
        holder = subprocess.Popen([program(), "run", self.session("one"), self.image, "--", "sleep", "100"], env=self.env)
        try:
            self.wait_until(lambda: self.processes("sleep"), "the holder does not run")
            self.assert_fails(self.run_image("true", options=[self.session("one")]), "verified as sha256:")
        finally:
            holder.terminate()
            holder.wait()

    def test_staged_copies_are_verified(self):
        self.assert_succeeds(self.sign())
        self.env["SLIPWAY_STAGE"] = ""
        result = self.run_image("cat", "/etc/image", options=["--stage=" + self.path("disk")])
        if result.status != 0:
            os.mkdir(self.path("disk"))
            result = self.run_image("cat", "/etc/image", options=["--stage=" + self.path("disk")])
        self.assert_succeeds(result)
        copies = [os.path.join(parent, name) for parent, _, names in os.walk(self.path("disk")) for name in names
                  if name.endswith(".sqfs")]
        self.assertEqual(len(copies), 1)
        os.chmod(copies[0], 0o600)
        self.flip(self.place_of("usr/share/words-7"), copies[0])
        result = self.run_image("cat", "/usr/share/words-7", options=["--stage=" + self.path("disk")])
        self.assertNotEqual(result.status, 0, result)


class DataPacks(SignTest):
    """Packs that are shown with --data are verified as the image is."""

    def setUp(self):
        super().setUp()
        self.assert_succeeds(self.sign())
        os.mkdir(self.path("data"))
        self.contents = {f"file{i}": os.urandom(300_000) for i in range(4)}
        for name, data in self.contents.items():
            self.write(f"data/{name}", data)
        self.pack = self.path("pack.sqfs")
        self.assert_succeeds(self.slipway("pack", self.path("data"), "-o", self.pack))

    def run_with(self, *command, options=()):
        return self.slipway("run", f"--verify={self.public}", "--data", f"{self.pack}:/data", *options, self.image, "--", *command)

    def test_a_pack_that_is_not_signed_or_not_by_the_right_key_is_refused(self):
        self.assert_fails(self.run_with("true"), '"' + self.pack + '" is not signed', "requested by: --data, argument 1, and --verify",
                          f"try: sign it: slipway sign {self.pack} --key KEY.pem")
        self.assert_succeeds(self.slipway("run", "--data", f"{self.pack}:/data", self.image, "--", "true"))
        self.assert_succeeds(self.sign(image=self.pack, key=self.other_key))
        self.assert_fails(self.run_with("true"), "nobody who is trusted here", "requested by: --data, argument 1")

    def test_every_byte_that_is_read_of_a_pack_is_checked(self):
        self.assert_succeeds(self.sign(image=self.pack))
        good = self.assert_succeeds(self.run_with("sh", "-c", "cd /data && sha256sum file*"))
        plain = self.assert_succeeds(self.slipway("run", "--data", f"{self.pack}:/data", self.image, "--", "sh", "-c",
                                                  "cd /data && sha256sum file*"))
        self.assertEqual(good.stdout, plain.stdout)
        data = self.read(self.pack)
        at = data.index(self.contents["file2"][:4096]) + 200_000
        self.flip(at, self.pack)
        self.assert_succeeds(self.run_with("cat", "/data/file0"))
        result = self.run_with("sha256sum", "/data/file2")
        self.assert_status(result, 1)
        self.assertIn("Input/output error", result.stderr)
        first = at // CHUNK * CHUNK
        self.assertIn(f"pack.sqfs was changed after it was signed: bytes {first} to {first + CHUNK - 1} differ",
                      result.stderr.replace('"', ""))
        self.flip(at, self.pack)
        inodes, = struct.unpack_from("<Q", data, 64)
        seal = Seal(data)
        for place, words in ((9, "was changed after it was signed"), (inodes + 20, "was changed after it was signed"),
                             (seal.content + 50, "damaged"), (seal.tree_at + 3, "was changed after it was signed")):
            self.flip(place, self.pack)
            result = self.run_with("sh", "-c", "cat /data/file*")
            self.assertNotEqual(result.status, 0, f"byte {place}: {result}")
            self.assertIn(words, result.stderr, f"byte {place}")
            self.flip(place, self.pack)
        self.assert_succeeds(self.run_with("sh", "-c", "cat /data/file* | wc -c"))

    def test_the_plan_says_it_and_staged_packs_are_checked_too(self):
        self.assert_succeeds(self.sign(image=self.pack))
        digest = self.verify("--json", image=self.pack).json()["digest"]
        mounts = self.assert_succeeds(self.run_with("true", options=["--dry-run"])).json()["mounts"]
        self.assertEqual([mount["seal"] for mount in mounts if mount["destination"] == "/data"], [digest])
        os.mkdir(self.path("disk"))
        stage = ["--stage=" + self.path("disk")]
        self.assert_succeeds(self.run_with("cat", "/data/file1", options=stage))
        copy, = [os.path.join(parent, name) for parent, _, names in os.walk(self.path("disk")) for name in names
                 if name.endswith("pack.sqfs")]
        os.chmod(copy, 0o600)
        times = os.stat(copy)
        self.flip(self.read(copy).index(self.contents["file1"][:4096]), copy)
        os.utime(copy, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertNotEqual(self.run_with("cat", "/data/file1", options=stage).status, 0)


class Policy(SignTest):
    def setUp(self):
        super().setUp()
        self.write("site/policy.json", json.dumps({"require_signature": True, "contact": "help@example.org"}))
        os.mkdir(self.path("site/trust.d"))
        shutil.copy(self.public, self.path("site/trust.d/site.pem"))

    def refused(self, *texts, image=None, options=()):
        return self.assert_fails(self.slipway("run", *options, image or self.image, "--", "true"),
                                 "this site's policy forbids", "require_signature", "help@example.org", *texts)

    def test_only_what_the_site_trusts_runs_and_it_is_verified_without_being_asked_for(self):
        self.refused("is not signed")
        self.assert_succeeds(self.sign(key=self.other_key))
        self.refused("nobody who is trusted here")
        own = os.path.join(self.env["HOME"], ".config/slipway/trust.d")
        os.makedirs(own)
        shutil.copy(self.other_public, own + "/me.pem")
        self.refused("nobody who is trusted here")  # a user's own key is no key of the site
        self.assert_fails(self.slipway("run", "--verify=" + self.other_public, self.image, "true"), "policy forbids")
        self.assert_succeeds(self.sign())
        self.assert_succeeds(self.slipway("run", self.image, "--", "true"))
        self.assert_succeeds(self.slipway("run", "--verify=" + self.other_public, self.image, "--", "true"))
        plan = self.assert_succeeds(self.slipway("run", "--dry-run", self.image, "--", "true")).json()
        self.assertTrue(plan["mounts"][0]["seal"].startswith("sha256:"))
        with open(os.path.join(self.root, "usr/share/words-3"), "rb") as file:
            self.flip(self.read().index(file.read(4096)))
        self.assert_status(self.slipway("run", self.image, "--", "cat", "/usr/share/words-3"), 1)
        self.refused("only squashfs files", image=self.root)


if __name__ == "__main__":
    main()
