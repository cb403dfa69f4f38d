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

from fetch_test import FetchTest
from registry_server import Answer, make_certificates
from slipway_test import main, program, require_program


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

    def test_names_in_a_zip_beyond_ascii(self):
        packed = io.BytesIO()
        names = ["Bilder/Zürich.txt", "ゆき.txt", "plain.txt", "cafX.txt"]
        with zipfile.ZipFile(packed, "w") as archive:
            for name in names:
                archive.writestr(name, name)
            link = zipfile.ZipInfo("länk")
            link.create_system, link.external_attr = 3, 0o120777 << 16
            archive.writestr(link, "Bilder/Zürich.txt")
        self.files["/names.zip"] = packed.getvalue().replace(b"cafX.txt", b"caf\x82.txt")  # an old one's, in no UTF-8
        self.entry(self.describe("/names.zip", unpack="zip"))
        for locale in ("C", "C.UTF-8"):
            result = self.fetch(output=f"{locale}.sqfs", env={"LC_ALL": locale})
            self.assert_succeeds(result)
            self.assertIn("4 files", result.stderr)
            for name in names[:3]:
                self.assertEqual(self.inside(name, f"{locale}.sqfs").decode(), name)
            sums = self.inside(".slipway/SHA256SUMS", f"{locale}.sqfs").splitlines()
            self.assertEqual({line.split(b"  ")[1] for line in sums},
                             {*(name.encode() for name in names[:3]), b"caf\x82.txt"})
            listed = subprocess.run([require_program("unsquashfs"), "-ll", self.path(f"{locale}.sqfs")], check=True,
                                    stdout=subprocess.PIPE).stdout.decode("utf-8", "surrogateescape")
            self.assertIn("/länk -> Bilder/Zürich.txt", listed)

    def test_members_without_a_name_or_target(self):
        def tar(name, type_, target=""):
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as archive:
                info = tarfile.TarInfo(name)
                info.type, info.linkname = type_, target
                archive.addfile(info)
            return packed.getvalue()
        for contents, text in ((tar(".", tarfile.REGTYPE), "a member that is no directory has no name"),
                               (tar("a", tarfile.SYMTYPE), 'the link "images/a" has no target'),
                               (tar("a", tarfile.LNKTYPE, "."), 'the link "images/a" has no target')):
            self.files["/odd.tar"] = contents
            self.entry(self.describe("/odd.tar", unpack="tar", path="images"))
            self.assert_fails(self.fetch(), "cannot be unpacked", text, "try: pack the archive again")
        self.files["/odd.tar"] = tar(".", tarfile.DIRTYPE)
        self.entry(self.describe("/odd.tar", unpack="tar", path="images"))
        self.assert_succeeds(self.fetch())

    def test_files_with_the_same_sum_are_fetched_once(self):
        same = self.describe("/data.bin")
        self.entry(*({**same, "path": f"copy{i}.bin"} for i in range(3)))
        self.assert_succeeds(self.fetch())
        for i in range(3):
            self.assertEqual(self.inside(f"copy{i}.bin"), self.data)
        self.assertEqual(self.ranges(), [None])
        self.assertEqual(self.left(), [])
        self.entry(same, {**same, "path": "copy.bin", "size": 12})
        self.assert_fails(self.fetch(output="x.sqfs"), "12 bytes")

    def test_two_at_once_with_the_same_files(self):
        self.files["/more.bin"] = os.urandom(1_000_000)
        one, two = self.describe("/data.bin"), self.describe("/more.bin")
        self.faults = [lambda path, _: Answer(200, {}, self.files[path], delay=1)] * 4
        entries = [self.entry(one, two, name="there"), self.entry(two, one, name="back")]
        running = [subprocess.Popen([program(), "fetch", entry, "-o", self.path(f"{i}.sqfs")], env=self.env,
                                    stderr=subprocess.PIPE, text=True) for i, entry in enumerate(entries)]
        for i, process in enumerate(running):
            self.addCleanup(process.kill)
            self.assertEqual((process.communicate(timeout=60)[1].count("error"), process.returncode), (0, 0))
            self.assertEqual(self.inside("data.bin", f"{i}.sqfs"), self.data)
            self.assertEqual(self.inside("more.bin", f"{i}.sqfs"), self.files["/more.bin"])
        self.assertEqual(self.left(), [])

    def test_what_changes_after_the_check_is_fetched_again(self):
        self.files["/more.bin"] = b"more"
        part = os.path.join(self.store, "partial", "fetch-" + hashlib.sha256(self.data).hexdigest())

        def overwrite():
            with open(part, "r+b") as file:
                file.write(b"evil")
        self.entry(self.describe("/data.bin"), self.describe("/more.bin"))
        for change in (lambda: os.unlink(part), overwrite):
            self.web.requests.clear()
            self.faults = [None, lambda *_: change() or Answer(200, {}, b"more")]
            self.assert_succeeds(self.fetch())
            self.assertEqual(self.inside("data.bin"), self.data)
            self.assertEqual([path for _, path, _ in self.web.requests][:3], ["/data.bin", "/more.bin", "/data.bin"])
            self.assertEqual(self.left(), [])

    def test_more_files_than_descriptors(self):
        files = []
        for i in range(100):
            data = b"%d" % i
            sum_ = hashlib.sha256(data).hexdigest()
            files.append({"url": "file://" + self.write(f"local/{i}", data), "sha256": sum_, "path": f"local/{i}"})
            self.files[f"/{i}"] = b"web" + data
            files.append(self.describe(f"/{i}", path=f"web/{i}"))
        entry = self.entry(*files)
        result = subprocess.run(["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", program(), "fetch", entry, "-o",
                                 self.path("out.sqfs")], env=self.env, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.inside("local/99"), b"99")
        self.assertEqual(self.inside("web/42"), b"web42")
        self.assertEqual(len(self.inside(".slipway/SHA256SUMS").splitlines()), 200)
        self.assertEqual(self.left(), [])

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

    def test_an_answer_without_a_length_that_ends_early(self):
        self.faults = [lambda *_: Answer(200, {}, self.data[:1_000_000], tell_length=False)]
        self.assert_succeeds(self.fetch())
        self.assertEqual(self.inside("data.bin"), self.data)
        self.assertEqual(self.ranges(), [None, "bytes=1000000-"])

    def test_what_came_is_kept_when_answers_end_early(self):
        nothing = Answer(206, {"Content-Range": "bytes 1000000-2999999/3000000"}, b"", tell_length=False)
        self.faults = [lambda *_: Answer(200, {}, self.data[:1_000_000], tell_length=False)] + [lambda *_: nothing] * 5
        self.assert_fails(self.fetch(), "ends after 1000000 of 3000000 bytes", "what came is kept, and continued")
        self.assertEqual(len(self.left()), 1)
        self.faults.clear()
        self.web.requests.clear()
        self.assert_succeeds(self.fetch())
        self.assertEqual(self.inside("data.bin"), self.data)
        self.assertEqual(self.ranges(), ["bytes=1000000-"])

    def test_a_server_that_gives_less_than_the_range(self):
        def piece(_, headers):
            start = int(headers["Range"].split("=")[1].rstrip("-"))
            end = min(start + 250_000, len(self.data))
            return Answer(206, {"Content-Range": f"bytes {start}-{end - 1}/{len(self.data)}"}, self.data[start:end])
        entry = self.describe("/data.bin")
        for size in ({"size": entry["size"]}, {"size": None}):
            self.entry({key: value for key, value in {**entry, **size}.items() if value is not None})
            self.web.requests.clear()
            self.faults = [1_000_000] + [piece] * 8
            self.assert_succeeds(self.fetch())
            self.assertEqual(self.inside("data.bin"), self.data)
            self.assertEqual(self.ranges(), [None] + [f"bytes={at}-" for at in range(1_000_000, 3_000_000, 250_000)])

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
