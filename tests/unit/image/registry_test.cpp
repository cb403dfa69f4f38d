// References, registries.conf, addresses: what the registry client decides without a network.
// Must not: connect to anything.
#include "../../../src/image/registry/config.hpp"
#include "../../../src/image/registry/credentials.hpp"
#include "../../../src/image/registry/http.hpp"
#include "../../../src/image/registry/reference.hpp"
#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {

const std::string kHex(64, 'a');

std::vector<std::string> places_of(const std::string& reference, const std::string& conf) {
    std::vector<std::string> places;
    for (const auto& endpoint :
         endpoints_of(parse_registry_reference(reference), parse_registries_conf(conf, "a file")))
        places.push_back(endpoint.host + "/" + endpoint.repository +
                         (endpoint.verify ? "" : " insecure"));
    return places;
}

}  // namespace

TEST_CASE("references of registries") {
    struct {
        const char* text;
        const char* whole;
    } const rows[] = {
        {"debian", "docker.io/library/debian:latest"},
        {"docker://debian:12", "docker.io/library/debian:12"},
        {"group/image", "docker.io/group/image:latest"},
        {"index.docker.io/debian", "docker.io/library/debian:latest"},
        {"localhost/x", "localhost/x:latest"},
        {"localhost:5000/a/b/c:v1.2_3", "localhost:5000/a/b/c:v1.2_3"},
        {"Lab.Example/a__b/c--d", "lab.example/a__b/c--d:latest"},
        {"[::1]:5000/x:v", "[::1]:5000/x:v"},
    };
    for (const auto& row : rows) {
        INFO(row.text);
        CHECK(parse_registry_reference(row.text).text() == row.whole);
    }
    const auto pinned = parse_registry_reference("quay.io/a/b:tag@sha256:" + kHex);
    CHECK(pinned.text() == "quay.io/a/b@sha256:" + kHex);
    CHECK(pinned.stored_name() == "quay.io/a/b:sha256-" + kHex);
    CHECK(parse_registry_reference("localhost:5000/x:v").stored_name() == "localhost:5000/x:v");
}

TEST_CASE("malformed references of registries") {
    for (const std::string text :
         {"", "docker://", "UPPER", "a b", "lab.example/", "lab.example//x",
          "lab.example/x:", "lab.example/x:.y", "x@sha256:12", "x@md5:12", "a:b:c", "a___b", "-a",
          "a-", "a..b", "lab.example:port/x", "lab.example:/x", "../x", "x/../y"}) {
        INFO(text);
        CHECK_THROWS_AS(parse_registry_reference(text), Error);
    }
}

TEST_CASE("registries.conf: the longest prefix counts, mirrors come first") {
    const std::string conf = R"(
# comment
unqualified-search-registries = ["docker.io",
  "quay.io"]
[[registry]]
location = "docker.io"
[[registry.mirror]]
location = "mirror.lab:5000/hub" # all of it
insecure = true
[[registry.mirror]]
location = 'second.lab'
pull-from-mirror = "digest-only"
[[registry]]
prefix = "docker.io/library"
location = "inside.lab/official"
[[registry]]
prefix = "*.example.com"
location = "wild.lab"
[aliases]
"x" = "docker.io/library/x"
)";
    using Places = std::vector<std::string>;
    CHECK(places_of("group/x", conf) ==
          Places{"mirror.lab:5000/hub/group/x insecure", "registry-1.docker.io/group/x"});
    CHECK(places_of("group/x@sha256:" + kHex, conf) ==
          Places{"mirror.lab:5000/hub/group/x insecure", "second.lab/group/x",
                 "registry-1.docker.io/group/x"});
    CHECK(places_of("debian", conf) == Places{"inside.lab/official/debian"});
    CHECK(places_of("a.example.com/x/y", conf) == Places{"wild.lab/x/y"});
    CHECK(places_of("other.lab/x", conf) == Places{"other.lab/x"});
    CHECK(places_of("docker.iota/x", conf) == Places{"docker.iota/x"});
}

TEST_CASE("registries.conf: blocked prefixes and what cannot be understood") {
    const std::string conf = "[[registry]]\nprefix = \"lab.example/x\"\nblocked = true\n";
    CHECK_THROWS_AS(places_of("lab.example/x", conf), Error);
    CHECK_THROWS_AS(places_of("lab.example/x/y", conf), Error);
    CHECK(places_of("lab.example/xy", conf).size() == 1);
    CHECK_THROWS_AS(parse_registries_conf("[[registry]]\nlocation = [1]\n", "a file"), Error);
    CHECK_THROWS_AS(parse_registries_conf("[[registry]]\nlocation\n", "a file"), Error);
}

TEST_CASE("addresses") {
    CHECK(resolve_url("https://a.lab/v2/x/uploads/1?s=2", "/v2/y?q=%2F") ==
          "https://a.lab/v2/y?q=%2F");
    CHECK(resolve_url("https://a.lab/v2/x", "https://b.lab/p?X=a%2Fb+c") ==
          "https://b.lab/p?X=a%2Fb+c");
    CHECK_THROWS_AS(resolve_url("https://a.lab/", "ftp://b.lab/x"), Error);
    CHECK(origin_of("https://a.lab/x") == origin_of("https://a.lab:443/y"));
    CHECK(origin_of("https://a.lab/x") != origin_of("http://a.lab/x"));
    CHECK(origin_of("https://a.lab@b.lab/x") == "https://b.lab:443");
    CHECK(percent_encoded("a/b c~_-.") == "a%2Fb%20c~_-.");
    CHECK(base64("") == "");
    CHECK(base64("a") == "YQ==");
    CHECK(base64("ab") == "YWI=");
    CHECK(base64("abc\xff") == "YWJj/w==");
}
