# Datasets of a catalogue, from a web server that does what bad ones do.
# Must not: reach for anything beyond loopback.
import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import tarfile
import time
import zipfile

from registry_server import Answer, Proxy, make_certificates
from slipway_test import SlipwayTest, main, program, require_program


class FetchTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.files, self.faults = {}, []
        self.env.update(SLIPWAY_SITE=self.path("site"), SLIPWAY_HTTP_TIMEOUT="5", XDG_CONFIG_HOME=self.path("config"))
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            self.env.pop(name, None)
            self.env.pop(name.upper(), None)
        self.web = self.server()
        self.data = os.urandom(3_000_000)
        self.files["/data.bin"] = self.data

    def server(self, tls=None):
        proxy = Proxy(0, self.rule, tls)
        self.addCleanup(proxy.stop)
        return proxy

    def rule(self, method, path, headers, number):
        """Serve self.files with ranges; the next of self.faults changes the answer."""
        fault = self.faults.pop(0) if self.faults else None
        if callable(fault):
            return fault(path, headers)
        if path not in self.files:
            return Answer(404, body=b"no")
        data = self.files[path]
        cut = fault
        if "Range" in headers:
            start = int(headers["Range"].split("=")[1].rstrip("-"))
            if start >= len(data):
                return Answer(416, {"Content-Range": f"bytes */{len(data)}"})
            return Answer(206, {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}, data[start:], cut_after=cut)
        return Answer(200, {}, data, cut_after=cut)

    def url(self, path, web=None):
        return f"http://{(web or self.web).host}{path}"

    def entry(self, *files, name="pictures", **about):
        """Write a catalogue entry; returns its path."""
        os.makedirs(self.path("catalogue"), exist_ok=True)
        document = {"name": name, "version": "1", "license": "CC0-1.0", "description": "for tests", "files": list(files),
                    **about}
        return self.write(f"catalogue/{name}.json", json.dumps(document))

    def describe(self, served, **more):
        return {"url": self.url(served), "sha256": hashlib.sha256(self.files[served]).hexdigest(),
                "size": len(self.files[served]), **more}

    def fetch(self, *options, name=None, output="out.sqfs", **more):
        return self.slipway("fetch", name or self.path("catalogue/pictures.json"), "-o", self.path(output), *options, **more)

    def inside(self, name, pack="out.sqfs"):
        return subprocess.run([require_program("unsquashfs"), "-cat", self.path(pack), name], check=True,
                              stdout=subprocess.PIPE).stdout

    def left(self):
        directory = os.path.join(self.store, "partial")
        return os.listdir(directory) if os.path.isdir(directory) else []

    def ranges(self):
        return [headers.get("Range") for _, _, headers in self.web.requests]


class Fetch(FetchTest):
    def test_files_sums_and_description(self):
        md5 = hashlib.md5(self.data).hexdigest()
        self.entry(self.describe("/data.bin"), {"url": self.url("/data.bin"), "md5": md5, "path": "deep/er/copy.bin"})
        result = self.assert_succeeds(self.fetch())
        self.assertIn("2 files", result.stderr)
        self.assertEqual(self.inside("data.bin"), self.data)
        self.assertEqual(self.inside("deep/er/copy.bin"), self.data)
        about = json.loads(self.inside(".slipway/pack.json"))
        self.assertEqual((about["name"], about["license"], about["source"]), ("pictures", "CC0-1.0", self.url("/data.bin")))
        self.assertIn(hashlib.sha256(self.data).hexdigest() + "  deep/er/copy.bin", self.inside(".slipway/SHA256SUMS").decode())
        self.assertEqual(self.left(), [])

    def test_the_same_entry_gives_the_same_bytes(self):
        self.entry(self.describe("/data.bin"))
        for name in ("one.sqfs", "two.sqfs"):
            self.assert_succeeds(self.fetch(output=name))
        with open(self.path("one.sqfs"), "rb") as one, open(self.path("two.sqfs"), "rb") as two:
            self.assertEqual(one.read(), two.read())

    def test_archives(self):
        tar, packed = io.BytesIO(), io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w:xz") as archive:
            for name in ("img1.txt", "sub/img2.txt"):
                info = tarfile.TarInfo("./" + name)
                info.size = 5
                archive.addfile(info, io.BytesIO(b"hello"))
            link = tarfile.TarInfo("sub/hard")
            link.type, link.linkname = tarfile.LNKTYPE, "./img1.txt"
            archive.addfile(link)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/b.csv", "1,2,3\n" * 1000)
        self.files.update({"/a.tar.xz": tar.getvalue(), "/b.zip": packed.getvalue(),
                           "/train-images-idx3-ubyte.gz": gzip.compress(b"pixels" * 10_000)})
        self.entry(self.describe("/a.tar.xz", unpack="tar", path="images"), self.describe("/b.zip", unpack="zip"),
                   self.describe("/train-images-idx3-ubyte.gz", unpack="gzip"))
        self.assert_succeeds(self.fetch())
        self.assertEqual(self.inside("images/sub/img2.txt"), b"hello")
        self.assertEqual(self.inside("images/sub/hard"), b"hello")
        self.assertEqual(self.inside("a/b.csv"), b"1,2,3\n" * 1000)
        self.assertEqual(self.inside("train-images-idx3-ubyte"), b"pixels" * 10_000)
        sums = self.inside(".slipway/SHA256SUMS").decode()
        self.assertEqual([line.split("  ")[1] for line in sums.splitlines()],
                         ["a/b.csv", "images/img1.txt", "images/sub/hard", "images/sub/img2.txt", "train-images-idx3-ubyte"])

    def test_an_archive_cannot_leave_the_pack(self):
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("../evil"), None)
        self.files["/evil.tar"] = tar.getvalue()
        self.entry(self.describe("/evil.tar", unpack="tar"))
        self.assert_fails(self.fetch(), "..")
        self.assertFalse(os.path.exists(self.path("out.sqfs")))
        self.files["/evil.tar"] = b"this is no archive at all" * 100
        self.entry(self.describe("/evil.tar", unpack="zip"))
        self.assert_fails(self.fetch(), "cannot be unpacked", 'try: correct "unpack"')

    def test_a_file_on_this_machine(self):
        path = self.write("local.bin", self.data)
        sum_ = hashlib.sha256(self.data).hexdigest()
        self.entry({"url": "file://" + path, "sha256": sum_})
        self.assert_succeeds(self.fetch())
        self.assertEqual(self.inside("local.bin"), self.data)
        self.assertTrue(os.path.exists(path))
        self.entry({"url": "file://" + path, "sha256": "0" * 64})
        self.assert_fails(self.fetch(output="x.sqfs"), "is not what", f"its sha256 is {sum_}", "try: ")
        self.entry({"url": "file:///absent", "sha256": sum_})
        self.assert_fails(self.fetch(output="x.sqfs"), "/absent")


class Broken(FetchTest):
    def setUp(self):
        super().setUp()
        self.entry(self.describe("/data.bin"))

    def test_a_cut_download_goes_on_where_it_stopped(self):
        self.faults = [1_000_000, 500_000]
        self.assert_succeeds(self.fetch())
        self.assertEqual(self.inside("data.bin"), self.data)
        self.assertEqual(self.ranges(), [None, "bytes=1000000-", "bytes=1500000-"])

    def test_the_next_call_continues_what_one_left(self):
        self.faults = [1_000_000] + [lambda *_: Answer(503, body=b"busy")] * 4
        self.assert_fails(self.fetch(), "cannot download", "503", "what came is kept, and continued")
        self.assertEqual(len(self.left()), 1)
        self.web.requests.clear()
        self.assert_succeeds(self.fetch())
        self.assertEqual(self.ranges(), ["bytes=1000000-"])
        self.assertEqual(self.left(), [])

    def test_a_kill_while_it_downloads(self):
        self.faults = [lambda *_: Answer(200, {}, self.data, cut_after=2_000_000)] + [
            lambda *_: Answer(503, body=b"busy", delay=3)] * 3
        process = subprocess.Popen([program(), "fetch", self.path("catalogue/pictures.json"), "-o", self.path("out.sqfs")],
                                   env=self.env, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while len(self.web.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertFalse(os.path.exists(self.path("out.sqfs")))
        time.sleep(3.2)  # the server's own answer to the killed one
        self.faults.clear()
        self.web.requests.clear()
        self.assert_succeeds(self.fetch())
        self.assertEqual(self.ranges(), ["bytes=2000000-"])

    def test_a_server_without_ranges(self):
        self.faults = [1_000_000, lambda *_: Answer(200, {}, self.data)]
        self.assert_succeeds(self.fetch())
        self.assertEqual(self.inside("data.bin"), self.data)

    def test_a_kept_part_that_is_wrong_is_fetched_anew(self):
        os.makedirs(os.path.join(self.store, "partial"))
        part = os.path.join(self.store, "partial", "fetch-" + hashlib.sha256(self.data).hexdigest())
        for junk in (b"x" * 1000, b"x" * len(self.data), self.data + b"more"):
            with open(part, "wb") as file:
                file.write(junk)
            self.assert_succeeds(self.fetch())
            self.assertEqual(self.inside("data.bin"), self.data)

    def test_a_part_that_was_not_asked_for(self):
        self.faults = [1_000_000, lambda *_: Answer(206, {"Content-Range": "bytes 5-2999999/3000000"}, self.data[5:])]
        self.assert_fails(self.fetch(), "another part than was asked for")

    def test_wrong_contents(self):
        self.files["/data.bin"] = self.data[:-1] + b"!"
        self.assert_fails(self.fetch(), "is not what", "catalogue/pictures.json", "its sha256 is", "try: if the publisher")
        self.assertEqual(self.left(), [])
        self.assertFalse(os.path.exists(self.path("out.sqfs")))
        self.files["/data.bin"] = self.data + b"more"
        self.assert_fails(self.fetch(), "larger than the 3000000 bytes expected")
        self.files["/data.bin"] = self.data[:-5]
        self.assert_fails(self.fetch(), "2999995 bytes instead of 3000000")

    def test_mirrors_and_absent_files(self):
        entry = self.describe("/data.bin")
        self.entry({"urls": [self.url("/gone"), entry["url"]], "sha256": entry["sha256"], "path": "data.bin"})
        self.assert_succeeds(self.fetch())
        self.entry({"urls": [self.url("/gone"), self.url("/gone2")], "sha256": entry["sha256"]})
        self.assert_fails(self.fetch(), "/gone2", "it is not there (404)", "before: ", "try: correct the URL")

    def test_redirections(self):
        self.faults = [lambda *_: Answer(302, {"Location": "/data.bin"})]
        self.assert_succeeds(self.fetch())
        self.faults = [lambda *_: Answer(302, {"Location": "/data.bin"})] * 20
        self.assert_fails(self.fetch(), "more than 10 redirections")

    def test_https_never_becomes_http(self):
        os.mkdir(self.path("certificates"))
        certificates = make_certificates(self.path("certificates"))
        secure = self.server(certificates)
        entry = {"url": f"https://{secure.host}/data.bin", "sha256": hashlib.sha256(self.data).hexdigest()}
        self.entry(entry)
        self.assert_fails(self.fetch(), "cannot download", "try: check the address")
        self.env["SSL_CERT_FILE"] = certificates[0]
        self.assert_succeeds(self.fetch())
        self.faults = [lambda *_: Answer(302, {"Location": self.url("/data.bin")})]
        self.assert_fails(self.fetch(), "it leads from https to http://")

    def test_nobody_listens(self):
        self.entry({"url": "http://127.0.0.1:9/data.bin", "sha256": "0" * 64})
        self.assert_fails(self.fetch(), "cannot download", "127.0.0.1:9")


class Catalogue(FetchTest):
    def test_a_site_configures_one(self):
        self.entry(self.describe("/data.bin"))
        self.entry(self.describe("/data.bin"), name="sounds", version="2")
        self.write("catalogue/broken.json", "{")
        self.write("site/config.json", json.dumps({"catalogue": self.path("catalogue")}))
        result = self.assert_succeeds(self.slipway("fetch", "--list"))
        self.assertRegex(result.stdout, r"(?m)^pictures +1 +CC0-1.0 +for tests$")
        self.assertIn("broken.json", result.stderr)
        names = [entry["name"] for entry in self.slipway("fetch", "--list", "--json").json()]
        self.assertEqual(names, ["pictures", "sounds"])
        self.assert_succeeds(self.slipway("fetch", "pictures"))
        self.assertEqual(self.inside("data.bin", "pictures.sqfs"), self.data)
        self.assert_succeeds(self.fetch(name="sounds@2"))
        self.assert_fails(self.fetch(name="sounds@3"), 'no dataset "sounds@3"', "try: choose among: sounds")
        self.assert_fails(self.fetch(name="pictuers"), "try: choose among: pictures")

    def test_other_places(self):
        self.entry(self.describe("/data.bin"))
        self.assert_fails(self.slipway("fetch", "--list"), "no catalogue of datasets is configured", "SLIPWAY_CATALOGUE")
        self.assert_succeeds(self.slipway("fetch", "--list", env={"SLIPWAY_CATALOGUE": self.path("catalogue")}))
        self.assert_succeeds(self.slipway("fetch", "--list", "--catalogue", self.path("catalogue")))
        self.assert_fails(self.slipway("fetch"), "no dataset was named", "try: slipway fetch NAME")

    def test_entries_that_cannot_be_understood(self):
        good = self.describe("/data.bin")
        for change, text in (({"url": "ftp://example.org/x"}, "none of http://"), ({"sha256": "12"}, "64 hexadecimal digits"),
                             ({"sha256": ""}, "neither sha256 nor md5"), ({"unpack": "rar"}, 'unpack "rar"'),
                             ({"size": -1}, '"size" that is no number'), ({"sha512": "00"}, 'unknown member "sha512"'),
                             ({"path": "../x"}, ".."), ({"url": ""}, 'without a "url"')):
            self.entry({**good, **change})
            self.assert_fails(self.fetch(), text)
        self.entry(good, naem="x")
        self.assert_fails(self.fetch(), 'unknown member "naem"', "try: ")
        self.entry()
        self.assert_fails(self.fetch(), 'no "files"')


if __name__ == "__main__":
    main()
