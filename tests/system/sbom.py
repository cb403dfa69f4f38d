# Lists of software, compared with what the package managers themselves say.
# Must not: trust a list that nobody else has made.
import json
import os
import re
import shutil
import subprocess
import tempfile

from slipway_test import Dir, File, SlipwayTest, Whiteout, host_architecture, main, program, require_program, run

EPOCH = "1700000000"

SPEC = """Name: {name}
Version: {version}
Release: 3
{epoch}
Summary: a test
License: MIT AND BSD-3-Clause
Vendor: Example Works
BuildArch: noarch
%description
a test
%files
"""


def packages_of(document, kind):
    """Return {(name, version, architecture)} of the packages of one kind, by their package URLs."""
    found = set()
    for package in document["packages"]:
        for reference in package.get("externalRefs", []):
            if match := re.match(rf"pkg:{kind}/[^?]*@[^?]*(?:\?.*?arch=([^&]*))?", reference["referenceLocator"]):
                found.add((package["name"], package["versionInfo"], match[1]))
    return found


class SbomTest(SlipwayTest):
    def sbom(self, image, *options, **env):
        result = self.assert_succeeds(self.slipway("sbom", image, *options, env={"SOURCE_DATE_EPOCH": EPOCH, **env}))
        document = json.loads(result.stdout) if result.stdout else None
        if document:
            self.check_form(document)
        self.last = result
        return document

    def check_form(self, document):
        """The rules of SPDX 2.3 that a reader relies on."""
        self.assertEqual(document["spdxVersion"], "SPDX-2.3")
        self.assertEqual(document["dataLicense"], "CC0-1.0")
        self.assertEqual(document["SPDXID"], "SPDXRef-DOCUMENT")
        self.assertRegex(document["documentNamespace"], r"^https://\S+$")
        self.assertRegex(document["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        ids = [package["SPDXID"] for package in document["packages"]]
        self.assertEqual(len(set(ids)), len(ids))
        for package in document["packages"]:
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertIs(package["filesAnalyzed"], False)
            for member in ("name", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText"):
                self.assertIsInstance(package[member], str)
        known = set(ids) | {"SPDXRef-DOCUMENT"}
        contained = set()
        for relation in document["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, known)
            if relation["relationshipType"] == "CONTAINS":
                contained.add(relation["relatedSpdxElement"])
        self.assertEqual(contained, known - {"SPDXRef-DOCUMENT", "SPDXRef-Image"})


class Debian(SbomTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="slipway-system-")
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.root = os.path.join(cls.shared, "root")
        env = dict(os.environ, TMPDIR=cls.shared, SLIPWAY_STORE=os.path.join(cls.shared, "store"))
        for words in (["bootstrap", "bookworm", "-t", "debian", "--include", "python3-idna"], ["convert", "debian", cls.root]):
            result = run([program(), *words], env=env, timeout=500)
            if result.status != 0:
                raise AssertionError(f"{result}")
        out = subprocess.run([require_program("dpkg-query"), f"--admindir={cls.root}/var/lib/dpkg", "-W",
                              "-f=${Package}\t${Version}\t${Architecture}\t${db:Status-Status}\n"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        cls.expected = {tuple(line.split("\t")[:3]) for line in out.splitlines() if line.endswith("\tinstalled")}

    def test_a_real_root_is_listed_as_dpkg_query_lists_it(self):
        self.assertGreater(len(self.expected), 8)
        document = self.sbom(self.root)
        self.assertEqual(packages_of(document, "deb"), self.expected)
        self.assertIn("idna", {name for name, _, _ in packages_of(document, "pypi")})
        libc, = [package for package in document["packages"] if package["name"] == "libc6"]
        self.assertRegex(libc["externalRefs"][0]["referenceLocator"],
                         rf"^pkg:deb/debian/libc6@[^?]+\?arch={host_architecture()}")
        self.assertIn("source package glibc", libc["sourceInfo"])

    def test_every_format_gives_the_same_list(self):
        self.assert_succeeds(self.slipway("convert", self.root, self.path("image.sqfs")))
        self.assert_succeeds(self.slipway("convert", self.root, f"oci:{self.path('layout')}"))
        self.assert_succeeds(self.slipway("convert", self.root, "store:debian"))
        lists = [packages_of(self.sbom(image), kind) for kind in ("deb", "pypi")
                 for image in (self.root, self.path("image.sqfs"), f"oci:{self.path('layout')}", "debian")]
        self.assertEqual(lists[:4], [lists[0]] * 4)
        self.assertEqual(lists[4:], [lists[4]] * 4)

    def test_inside_the_image_and_the_same_bytes_each_time(self):
        env = {"SOURCE_DATE_EPOCH": EPOCH}
        for name in ("one", "two"):
            os.mkdir(self.path(name))
            self.assert_succeeds(self.slipway("convert", "--sbom", self.root, self.path(f"{name}/image.sqfs"), env=env))
        with open(self.path("one/image.sqfs"), "rb") as one, open(self.path("two/image.sqfs"), "rb") as two:
            self.assertEqual(one.read(), two.read())
        out = subprocess.run([require_program("unsquashfs"), "-cat", self.path("one/image.sqfs"), ".slipway/sbom.spdx.json"],
                             stdout=subprocess.PIPE, check=True).stdout
        document = json.loads(out)
        self.check_form(document)
        self.assertEqual(packages_of(document, "deb"), self.expected)
        self.assertEqual(document["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        self.assertEqual(document["name"], "image")
        self.assert_fails(self.slipway("convert", "--sbom", self.root, self.path("tree")), "squashfs files only")
        self.assert_fails(self.slipway("convert", "--sbom", self.root, self.path("one/image.sqfs")), "there already")


    def test_a_build_lists_what_it_builds(self):
        """What a RUN takes away is not in the list, what a COPY brings is; the same bytes each time; nothing without -o."""
        self.assert_succeeds(self.slipway("convert", self.root, "store:base"))
        self.write("context/METADATA", "Metadata-Version: 2.1\nName: brought\nVersion: 3.1\n")
        self.write("context/Dockerfile", "FROM base\nCOPY METADATA /opt/brought-3.1.dist-info/METADATA\n"
                                         "RUN rm -r /usr/lib/python3/dist-packages/idna-*\n")
        env = {"SOURCE_DATE_EPOCH": EPOCH}
        images = []
        for number in range(2):
            out = self.path(f"built{number}/image.sqfs")
            os.mkdir(os.path.dirname(out))
            options = ["--no-cache"] * number
            self.assert_succeeds(self.slipway("build", "--sbom", *options, "-o", out, self.path("context"), env=env, timeout=300))
            with open(out, "rb") as file:
                images.append(file.read())
        self.assertEqual(images[0], images[1])
        inside = subprocess.run([require_program("unsquashfs"), "-cat", out, ".slipway/sbom.spdx.json"], stdout=subprocess.PIPE,
                                check=True).stdout
        document = json.loads(inside)
        self.check_form(document)
        self.assertEqual(packages_of(document, "deb"), self.expected)
        self.assertEqual({name for name, _, _ in packages_of(document, "pypi")}, {"brought"})
        self.assertEqual(packages_of(self.sbom(out), "pypi"), packages_of(document, "pypi"))
        self.assertEqual(self.assert_succeeds(self.slipway("run", out, "--", "cat", "/.slipway/sbom.spdx.json")).stdout.encode(), inside)
        self.assert_succeeds(self.slipway("build", "-o", self.path("plain.sqfs"), self.path("context"), env=env))
        listing = subprocess.run(["unsquashfs", "-l", self.path("plain.sqfs")], stdout=subprocess.PIPE, check=True, text=True).stdout
        self.assertNotIn("sbom.spdx.json", listing)
        self.assert_fails(self.slipway("build", "--sbom", "-t", "listed", self.path("context")), "needs a squashfs file to be in",
                          "requested by: --sbom", "try: add -o FILE.sqfs")


class Others(SbomTest):
    def test_rpm_as_rpm_itself_lists_it(self):
        root, top = self.path("root"), self.path("rpmbuild")
        database = os.path.join(root, "usr/lib/sysimage/rpm")
        os.makedirs(database)
        for name, version, epoch in (("alpha", "1.2", ""), ("beta-libs", "2.0~rc1", "Epoch: 4")):
            spec = self.write(f"{name}.spec", SPEC.format(name=name, version=version, epoch=epoch))
            subprocess.run([require_program("rpmbuild"), "--quiet", "--define", f"_topdir {top}", "-bb", spec], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env)
        packages = [os.path.join(parent, name) for parent, _, names in os.walk(top) for name in names
                    if name.endswith(".rpm")]
        self.assertEqual(len(packages), 2)
        define = ["--dbpath", database, "--define", "_db_backend sqlite"]
        subprocess.run([require_program("rpm"), *define, "-i", "--justdb", "--nodeps", "--noscripts", *packages],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.env)
        out = subprocess.run(["rpm", *define, "-qa", "--qf", "%{NAME}\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\t%{ARCH}\n"],
                             check=True, stdout=subprocess.PIPE, text=True, env=self.env).stdout
        expected = {tuple(line.split("\t")) for line in out.splitlines()}
        self.assertEqual(len(expected), 2)
        self.write("root/etc/os-release", 'ID="fedora"\nVERSION_ID=40\n')
        document = self.sbom(root)
        self.assertEqual(packages_of(document, "rpm"), expected)
        beta, = [package for package in document["packages"] if package["name"] == "beta-libs"]
        self.assertEqual(beta["externalRefs"][0]["referenceLocator"],
                         "pkg:rpm/fedora/beta-libs@2.0~rc1-3?arch=noarch&distro=fedora-40&epoch=4")
        self.assertEqual(beta["supplier"], "Organization: Example Works")
        self.assertIn("MIT AND BSD-3-Clause", beta["licenseComments"])
        self.write("root/usr/lib/sysimage/rpm/rpmdb.sqlite", b"SQLite format 3\0 but no more")
        self.sbom(root)
        self.assertIn("warning: the packages of rpm are missing", self.last.stderr)
        os.unlink(os.path.join(database, "rpmdb.sqlite"))
        self.write("root/var/lib/rpm/Packages", b"\0" * 100)
        self.sbom(root)
        self.assertIn("an older rpm, which is not read", self.last.stderr)

    def test_apk_python_and_images_without_dpkg(self):
        installed = ("C:Q1abc\nP:musl\nV:1.2.4-r2\nA:x86_64\nL:MIT\no:musl\nm:Someone <a@example.org>\nF:lib\nR:ld-musl\n\n"
                     "P:ssl_client\nV:1.36.1-r5\nA:x86_64\no:busybox\nL:GPL-2.0-only\n")
        layer = [Dir("lib"), Dir("lib/apk"), Dir("lib/apk/db"), File("lib/apk/db/installed", installed),
                 Dir("etc"), File("etc/os-release", "ID=alpine\nVERSION_ID=3.18.4\n"),
                 Dir("var"), Dir("var/lib"), Dir("var/lib/dpkg"), Dir("var/lib/dpkg/status.d"),
                 File("var/lib/dpkg/status.d/base", "Package: base-files\nVersion: 12.4\nArchitecture: all\n"),
                 File("var/lib/dpkg/status.d/base.md5sums", "Package: no\nVersion: 1\n"),
                 Dir("opt"), Dir("opt/My_Pkg-1.0.dist-info"), Dir("opt/gone-1.0.dist-info"),
                 File("opt/My_Pkg-1.0.dist-info/METADATA",
                      "Metadata-Version: 2.4\nName: My_Pkg\nVersion: 1.0\nLicense-Expression: MIT OR Apache-2.0\n\nName: fake\n"),
                 File("opt/gone-1.0.dist-info/METADATA", "Name: gone\nVersion: 1.0\n")]
        layout = self.make_oci_layout([layer, [Whiteout("opt/gone-1.0.dist-info")]])
        document = self.sbom(f"oci:{layout}")
        self.assertEqual(packages_of(document, "apk"), {("musl", "1.2.4-r2", "x86_64"), ("ssl_client", "1.36.1-r5", "x86_64")})
        self.assertEqual(packages_of(document, "deb"), {("base-files", "12.4", "all")})
        self.assertEqual(packages_of(document, "pypi"), {("My_Pkg", "1.0", None)})
        mine, = [package for package in document["packages"] if package["name"] == "My_Pkg"]
        self.assertEqual(mine["licenseDeclared"], "MIT OR Apache-2.0")
        self.assertEqual(mine["externalRefs"][0]["referenceLocator"], "pkg:pypi/my-pkg@1.0")
        self.assertEqual(self.sbom(f"oci:{layout}"), document)

    def test_output_and_errors(self):
        layout = self.make_oci_layout([[Dir("d")]])
        self.assertIsNone(self.sbom(f"oci:{layout}", "-o", self.path("list.json")))
        with open(self.path("list.json")) as file:
            self.assertEqual(len(json.load(file)["packages"]), 1)
        self.assert_fails(self.slipway("sbom", "/"), "the host itself is no image", "dpkg-query")
        self.assert_fails(self.slipway("sbom", layout, env={"SOURCE_DATE_EPOCH": "soon"}), "no number of seconds", "try: ")


if __name__ == "__main__":
    main()
