// Records of package managers, sound and broken.
// Must not: read a file.
#include "../../../src/image/sbom/parse.hpp"
#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/json.hpp"

using namespace slipway;
using namespace slipway::image;

TEST_CASE("dpkg's status: what is installed, and nothing else") {
    const auto packages = parse_dpkg(
        "Package: one\nStatus: install ok installed\nVersion: 1:2.0-1\nArchitecture: amd64\n"
        "Source: uno (1:2.0)\nDescription: a\n long: text\n .\n\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nVersion: 1\n\n"
        "Package: broken\nStatus: install ok installed\n\n"
        "no colon here\n\n"
        "Package: last\nStatus: hold ok installed\nVersion: 3\nArchitecture: all",
        "var/lib/dpkg/status");
    REQUIRE(packages.size() == 2);
    CHECK(packages[0].name == "one");
    CHECK(packages[0].version == "1:2.0-1");
    CHECK(packages[0].source == "uno");
    CHECK(packages[1].name == "last");
    CHECK(parse_dpkg("", "x").empty());
}

TEST_CASE("Python's metadata end at the first empty line") {
    const auto packages = parse_python(
        "Metadata-Version: 2.1\r\nName: numpy\r\nVersion: 1.2\r\nLicense: BSD\r\n\r\nName: fake\r\n"
        "Version: 9\r\n",
        "x.dist-info/METADATA");
    REQUIRE(packages.size() == 1);
    CHECK(packages[0].name == "numpy");
    CHECK_FALSE(packages[0].license_is_spdx);
    CHECK(parse_python("nothing of the kind", "x").empty());
}

TEST_CASE("rpm's headers are not believed beyond their bytes") {
    const auto refused = [](const std::string& blob) {
        try {
            parse_rpm_header(blob, "rpmdb.sqlite");
            return false;
        } catch (const Error& error) {
            return error.kind() == ErrorKind::invalid_image;
        }
    };
    CHECK(refused(""));
    CHECK(refused(std::string("\0\0\0\1\0\0\0\1", 8)));
    CHECK(refused(std::string("\xff\xff\xff\xff\0\0\0\1", 8) + std::string(64, 'x')));
    // One entry, NAME, whose text lies behind the end; then one that lies within.
    const std::string head("\0\0\0\1\0\0\0\4\0\0\x03\xe8\0\0\0\6", 16);
    CHECK(refused(head + std::string("\0\0\1\0\0\0\0\1", 8) + std::string("abc\0", 4)));
    const auto package =
        parse_rpm_header(head + std::string("\0\0\0\0\0\0\0\1", 8) + std::string("abc\0", 4), "x");
    CHECK(package.name == "abc");
}

TEST_CASE("ids in a document are unique, whatever the names") {
    SoftwareInventory inventory;
    for (const char* name : {"a+b", "a_b", "a b"}) {
        SoftwarePackage package;
        package.name = name;
        package.version = "1";
        inventory.packages.push_back(package);
    }
    const Json document = parse_json(spdx_document(inventory, "image", 0), "document");
    std::vector<std::string> ids;
    for (const auto& package : document["packages"]) ids.push_back(package["SPDXID"]);
    CHECK(ids == std::vector<std::string>{"SPDXRef-Image", "SPDXRef-deb-a-b-", "SPDXRef-deb-a-b--2",
                                          "SPDXRef-deb-a-b--3"});
    CHECK(document["creationInfo"]["created"] == "1970-01-01T00:00:00Z");
}
