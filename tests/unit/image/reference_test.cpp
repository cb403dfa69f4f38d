// Image references: every form, and what is wrong with the others.
// Must not: need a store.
#include "slipway/image/reference.hpp"

#include <unistd.h>

#include "catch.hpp"
#include "fixture.hpp"

using namespace slipway;
using namespace slipway::image;

TEST_CASE("reference: schemes and names") {
    struct Row {
        const char* text;
        RefKind kind;
        const char* name;
    };
    for (const Row& row : std::vector<Row>{
             {"docker://ubuntu:24.04", RefKind::registry, "ubuntu:24.04"},
             {"digits", RefKind::stored, "digits:latest"},
             {"digits:v2", RefKind::stored, "digits:v2"},
             {"lab.example.org:5000/group/digits", RefKind::stored,
              "lab.example.org:5000/group/digits:latest"},
             {"store:digits", RefKind::stored, "digits:latest"},
         }) {
        INFO(row.text);
        ImageRef ref = parse_image_ref(row.text);
        CHECK(ref.kind == row.kind);
        CHECK(ref.name == row.name);
        CHECK(ref.text == row.text);
    }
    CHECK(parse_image_ref("/").kind == RefKind::host);
    CHECK(parse_image_ref("//").kind == RefKind::host);
}

TEST_CASE("reference: paths are told by content, then by suffix") {
    Scratch scratch;
    std::string sif(600, '\0');
    sif.replace(32, 9, "SIF_MAGIC");
    spit(scratch / "image", "hsqs" + std::string(600, 'x'));
    spit(scratch / "container", sif);
    spit(scratch / "new.sqfs", "");
    spit(scratch / "archive.tar.gz", "\x1f\x8b");
    spit(scratch / "notes.txt", "hello");
    scratch.dir("root");
    CHECK(parse_image_ref(scratch / "image").kind == RefKind::squashfs);
    CHECK(parse_image_ref(scratch / "container").kind == RefKind::sif);
    CHECK(parse_image_ref(scratch / "new.sqfs").kind == RefKind::squashfs);
    CHECK(parse_image_ref(scratch / "archive.tar.gz").kind == RefKind::archive);
    CHECK(parse_image_ref(scratch / "root").kind == RefKind::directory);
    CHECK(error_of([&] { parse_image_ref(scratch / "notes.txt"); }).kind() ==
          ErrorKind::invalid_image);
    CHECK(error_of([&] { parse_image_ref(scratch / "absent"); }).kind() == ErrorKind::not_found);
    CHECK(error_of([] { parse_image_ref("absent-here.sqfs"); }).kind() == ErrorKind::not_found);

    write_layer(scratch / "layer", {file("a", "b")}, LayerCompression::none);
    CHECK(parse_image_ref(scratch / "layer").kind == RefKind::archive);
}

TEST_CASE("reference: layouts and archives, with colons in their paths") {
    Scratch scratch;
    std::string layout = scratch.dir("lay:out");
    ImageRef ref = parse_image_ref("oci:" + layout + ":v1");
    CHECK(ref.kind == RefKind::oci_layout);
    CHECK(ref.path == layout);
    CHECK(ref.name == "v1");
    CHECK(parse_image_ref("oci:" + layout).name.empty());
    spit(layout + "/oci-layout", "{}");
    spit(layout + "/index.json", "{}");
    CHECK(parse_image_ref(layout).kind == RefKind::oci_layout);

    spit(scratch / "saved.tar", "x");
    ref = parse_image_ref("docker-archive:" + (scratch / "saved.tar") + ":debian:12");
    CHECK(ref.path == scratch / "saved.tar");
    CHECK(ref.name == "debian:12");
    CHECK(parse_image_ref("docker-archive:" + (scratch / "saved.tar")).name.empty());
    for (std::string absent : {"oci:/no/where", "oci:/no/where:tag",
                               "oci:", "docker-archive:", "docker-archive:/no/where.tar:x"}) {
        INFO(absent);
        CHECK(error_of([&] { parse_image_ref(absent); }).kind() == ErrorKind::not_found);
    }
}

TEST_CASE("reference: malformed names are refused with the form that is right") {
    for (const std::string& bad : std::vector<std::string>{
             "", "Upper", "a//b", "a/", "/a:b:c", "-x", "x:", "x:-tag", "a b", "x@sha256:00",
             "x:" + std::string(129, 't'), "http://host/image", ":tag", "docker://", "a/../b"}) {
        INFO(bad);
        Error error = error_of([&] { parse_image_ref(bad); });
        CHECK((error.kind() == ErrorKind::usage || bad[0] == '/'));
        CHECK((!error.hint().empty() || bad[0] == '/'));
    }
}
