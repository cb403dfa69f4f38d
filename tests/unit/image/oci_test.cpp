// OCI layouts and docker archives: choice among images, damage, round trips.
// Must not: reach a registry.
#include "slipway/image/oci.hpp"

#include "../../../src/image/oci/model.hpp"
#include "catch.hpp"
#include "fixture.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {

constexpr const char* kOther = "linux/s390x";

Descriptor image_descriptor(const std::string& tag, const std::string& platform = "",
                            const std::string& content = "x") {
    Descriptor descriptor;
    descriptor.media_type = kManifestType;
    descriptor.digest = sha256(content + tag + platform);
    descriptor.size_bytes = 1;
    descriptor.platform = platform;
    descriptor.tag = tag;
    descriptor.json = to_json(descriptor);
    return descriptor;
}

/// Write an image of one layer into a layout and return its manifest's descriptor.
Descriptor add_image(const std::string& layout, const std::string& tag,
                     const std::vector<Item>& items) {
    LayoutWriter writer(layout, layout + "/blobs/sha256");
    Layer layer = write_layer(layout + "/layer", items);
    sys::renameat(AT_FDCWD, layout + "/layer", AT_FDCWD, blob_path(layout, layer.digest));
    ImageConfig config;
    config.cmd = {tag};
    config.diff_ids = {layer.diff_id};
    Descriptor document = writer.put(to_text(config_to_json(config)), kConfigType);
    Descriptor manifest = writer.put(to_text(make_manifest(document, {layer})), kManifestType);
    writer.set_tag(tag, manifest);
    return manifest;
}

}  // namespace

TEST_CASE("oci: one image is chosen by tag and platform") {
    const std::string host = host_platform();
    auto choose = [&](const std::vector<Descriptor>& list, const std::string& tag) {
        return choose_image(list, tag, "", "the test").digest;
    };
    auto a = image_descriptor("a"), b = image_descriptor("b");
    CHECK(choose({a}, "") == a.digest);
    CHECK(choose({a, b}, "b") == b.digest);
    Error several = error_of([&] { choose({a, b}, ""); });
    CHECK(several.kind() == ErrorKind::usage);
    CHECK_THAT(several.render(), ContainsSubstring("a, b"));
    Error unknown = error_of([&] { choose({a, b}, "c"); });
    CHECK(unknown.kind() == ErrorKind::not_found);
    CHECK_THAT(unknown.render(), ContainsSubstring("a, b"));
    CHECK(error_of([&] { choose({}, ""); }).kind() == ErrorKind::not_found);

    auto mine = image_descriptor("", host), other = image_descriptor("", kOther);
    auto attestation = image_descriptor("", "unknown/unknown");
    CHECK(choose({other, mine, attestation}, "") == mine.digest);
    CHECK(choose({other, attestation}, "") == other.digest);
    Error none = error_of([&] { choose({other, image_descriptor("", "linux/mips")}, ""); });
    CHECK(none.kind() == ErrorKind::unsupported);
    CHECK_THAT(none.render(), ContainsSubstring("linux/mips"));
    CHECK(choose({image_descriptor("t", kOther), image_descriptor("t", host)}, "t") ==
          image_descriptor("t", host).digest);
}

TEST_CASE("oci: platforms have one name each") {
    const std::pair<const char*, const char*> rows[] = {
        {"linux/amd64", "linux/amd64"},
        {"linux/x86_64", "linux/amd64"},
        {"Linux/X86-64", "linux/amd64"},
        {"linux/amd64/v1", "linux/amd64"},
        {"linux/amd64/v3", "linux/amd64/v3"},
        {"linux/aarch64", "linux/arm64"},
        {"linux/arm64/v8", "linux/arm64"},
        {"linux/arm64/8", "linux/arm64"},
        {"arm64", "linux/arm64"},
        {"linux/arm", "linux/arm/v7"},
        {"linux/arm/6", "linux/arm/v6"},
        {"linux/armhf", "linux/arm/v7"},
        {"linux/armel", "linux/arm/v6"},
        {"linux/i386", "linux/386"},
        {"macos/arm64", "darwin/arm64"},
        {"linux/loongarch64", "linux/loong64"},
    };
    for (const auto& [text, name] : rows) CHECK(normalize_platform(text) == name);
    CHECK(normalize_platform("linux") == host_platform());
    for (const char* text : {"", "/", "linux/", "/amd64", "a/b/c/d", "linux/am d64", "vax"})
        CHECK(error_of([&] { normalize_platform(text); }).kind() == ErrorKind::usage);
}

TEST_CASE("oci: an earlier variant will do, a later one will not") {
    CHECK(platforms_for("linux/arm/v7") ==
          std::vector<std::string>{"linux/arm/v7", "linux/arm/v6", "linux/arm/v5"});
    CHECK(platforms_for("linux/amd64/v3") ==
          std::vector<std::string>{"linux/amd64/v3", "linux/amd64/v2", "linux/amd64"});
    CHECK(platforms_for("linux/arm64/v9") ==
          std::vector<std::string>{"linux/arm64/v9", "linux/arm64"});
    CHECK(platforms_for("linux/amd64") == std::vector<std::string>{"linux/amd64"});
    auto with = [](const std::string& variant) {
        auto descriptor = image_descriptor("");
        descriptor.platform = "linux/arm/" + variant;
        descriptor.digest = sha256(variant);
        return descriptor;
    };
    const std::vector<Descriptor> list{with("v5"), with("v7"), with("v6")};
    CHECK(choose_image(list, "", "linux/arm/v6", "the test").digest == sha256("v6"));
    CHECK(choose_image(list, "", "linux/arm/v8", "the test").digest == sha256("v7"));
    CHECK(error_of([&] { choose_image({with("v7")}, "", "linux/arm/v6", "the test"); }).kind() ==
          ErrorKind::unsupported);
    const Descriptor nameless = image_descriptor("");
    CHECK(choose_in_index({nameless}, "", "the test").digest == nameless.digest);
    CHECK(choose_in_index({image_descriptor("", host_platform())}, "", "the test").platform ==
          host_platform());
    Error foreign = error_of([&] { choose_in_index({with("v7")}, "", "the test"); });
    CHECK(foreign.kind() == ErrorKind::unsupported);
    CHECK_THAT(foreign.render(), ContainsSubstring("it has: linux/arm/v7"));
}

TEST_CASE("oci: a layout written is a layout read; other tags stay") {
    Scratch scratch;
    std::string layout = scratch.dir("layout");
    add_image(layout, "one", {file("a", "1")});
    add_image(layout, "two", {file("b", "2")});
    OciImage image = open_oci_layout(layout, "two");
    CHECK(image.config.cmd == std::vector<std::string>{"two"});
    REQUIRE(image.layers.size() == 1);
    CHECK(image.layers[0].diff_id == image.config.diff_ids[0]);
    verify_blobs(image);
    auto source = open_image_layer(image, 0);
    CHECK(drain(*source)[0].data == "2");

    std::string copy = scratch / "copy";
    write_oci_layout(open_oci_layout(layout, "one"), copy, "x");
    write_oci_layout(image, copy, "y");
    CHECK(open_oci_layout(copy, "y").manifest_digest == image.manifest_digest);
    CHECK(open_oci_layout(copy, "x").config.cmd == std::vector<std::string>{"one"});
    write_oci_layout(image, copy, "x");
    CHECK(open_oci_layout(copy, "x").manifest_digest == image.manifest_digest);
    output_of({"umoci", "ls", "--layout", copy});
}

TEST_CASE("oci: nested indexes are followed") {
    Scratch scratch;
    std::string layout = scratch.dir("layout");
    Descriptor manifest = add_image(layout, "inner", {file("a", "1")});
    LayoutWriter writer(layout, layout + "/blobs/sha256");
    writer.remove_tag("inner");
    Json entry = to_json(manifest);
    entry["platform"] = {{"os", "linux"}, {"architecture", host_platform().substr(6)}};
    Json attestation = entry;
    attestation["platform"] = {{"os", "unknown"}, {"architecture", "unknown"}};
    Json index = {{"schemaVersion", 2}, {"manifests", {attestation, entry}}};
    writer.set_tag("outer", writer.put(to_text(index), kIndexType));
    CHECK(open_oci_layout(layout, "outer").manifest_digest == manifest.digest);
    CHECK(open_oci_layout(layout, "").manifest_digest == manifest.digest);
}

TEST_CASE("oci: damage is found") {
    Scratch scratch;
    std::string layout = scratch.dir("layout");
    Descriptor manifest = add_image(layout, "t", {file("a", std::string(100'000, 'a'))});
    OciImage image = open_oci_layout(layout, "t");
    auto damage = [&](const Digest& digest) {
        std::string path = blob_path(layout, digest);
        std::string bytes = read_file(path);
        bytes[bytes.size() - 3] ^= 1;
        spit(path, bytes);
    };
    SECTION("the manifest") {
        damage(manifest.digest);
        CHECK(error_of([&] { open_oci_layout(layout, "t"); }).kind() == ErrorKind::invalid_image);
    }
    SECTION("the config") {
        damage(image.config_digest);
        CHECK(error_of([&] { open_oci_layout(layout, "t"); }).kind() == ErrorKind::invalid_image);
    }
    SECTION("a layer, which is noticed by whoever reads it to its end") {
        damage(image.layers[0].digest);
        CHECK(error_of([&] { verify_blobs(image); }).kind() == ErrorKind::invalid_image);
        Error error = error_of([&] { drain(*open_image_layer(image, 0)); });
        CHECK((error.kind() == ErrorKind::invalid_image ||
               error.kind() == ErrorKind::invalid_archive));
        std::string copy = scratch / "copy";
        CHECK(error_of([&] { write_oci_layout(image, copy, "t"); }).kind() ==
              ErrorKind::invalid_image);
    }
    SECTION("a layer that is another valid layer") {
        Layer other = write_layer(scratch / "other", {file("evil", "x")});
        spit(blob_path(layout, image.layers[0].digest), read_file(scratch / "other"));
        CHECK(error_of([&] { drain(*open_image_layer(image, 0)); }).kind() ==
              ErrorKind::invalid_image);
    }
    SECTION("a missing layer") {
        sys::unlinkat(AT_FDCWD, blob_path(layout, image.layers[0].digest));
        CHECK(error_of([&] { open_image_layer(image, 0); }).kind() == ErrorKind::not_found);
    }
    SECTION("no layout at all") {
        CHECK(error_of([&] { open_oci_layout(scratch.dir("empty"), ""); }).kind() ==
              ErrorKind::invalid_image);
        CHECK(error_of([&] { open_oci_layout(scratch / "absent", ""); }).kind() ==
              ErrorKind::not_found);
    }
    SECTION("layers and diff ids that differ in number") {
        LayoutWriter writer(layout, layout + "/blobs/sha256");
        ImageConfig config;
        Descriptor document = writer.put(to_text(config_to_json(config)), kConfigType);
        writer.set_tag("t",
                       writer.put(to_text(make_manifest(document, image.layers)), kManifestType));
        CHECK(error_of([&] { open_oci_layout(layout, "t"); }).kind() == ErrorKind::invalid_image);
    }
    SECTION("a layer of an unknown kind") {
        LayoutWriter writer(layout, layout + "/blobs/sha256");
        auto layers = image.layers;
        layers[0].media_type = "application/vnd.oci.image.layer.v1.tar+gzip+encrypted";
        Descriptor document = writer.put(to_text(config_to_json(image.config)), kConfigType);
        writer.set_tag("t", writer.put(to_text(make_manifest(document, layers)), kManifestType));
        Error error = error_of([&] { open_oci_layout(layout, "t"); });
        CHECK(error.kind() == ErrorKind::unsupported);
        CHECK_THAT(error.message(), ContainsSubstring("encrypted"));
    }
}

TEST_CASE("docker archive: layers plain, compressed, linked; chosen by name") {
    Scratch scratch;
    std::string tree = scratch.dir("tree");
    Layer plain = write_layer(tree + "/plain.tar", {file("a", "1")}, LayerCompression::none);
    Layer gzip = write_layer(tree + "/gzip.tar", {file("b", "2")});
    sys::symlinkat("plain.tar", AT_FDCWD, tree + "/link.tar");
    auto write_config = [&](const std::string& name, const std::string& command) {
        ImageConfig config;
        config.cmd = {command};
        config.diff_ids = {plain.diff_id, gzip.diff_id, plain.diff_id};
        spit(tree + "/" + name, to_text(config_to_json(config)));
    };
    write_config("one.json", "one");
    write_config("two.json", "two");
    Json layers = {"plain.tar", "gzip.tar", "link.tar"};
    spit(tree + "/manifest.json",
         to_text(Json{{{"Config", "one.json"}, {"RepoTags", {"lab/one:v1"}}, {"Layers", layers}},
                      {{"Config", "two.json"}, {"RepoTags", {"two:latest"}}, {"Layers", layers}}}));
    std::string long_name = std::string(200, 'n');
    spit(tree + "/" + long_name, "a member with a long name");
    for (std::string format : {"gnu", "pax"}) {
        for (bool compressed : {false, true}) {
            INFO(format << compressed);
            std::string archive = scratch / "saved.tar";
            output_of({"tar", compressed ? "-czf" : "-cf", archive, "--format=" + format, "-C",
                       tree, "."});
            OciImage image = open_docker_archive(archive, "two");
            CHECK(image.config.cmd == std::vector<std::string>{"two"});
            REQUIRE(image.layers.size() == 3);
            CHECK(image.layers[0].digest == plain.digest);
            CHECK(image.layers[1].digest == gzip.digest);
            CHECK(image.layers[2].digest == plain.digest);
            verify_blobs(image);
            CHECK(drain(*open_image_layer(image, 1))[0].data == "2");
            CHECK(open_docker_archive(archive, "lab/one:v1").config.cmd ==
                  std::vector<std::string>{"one"});
            CHECK(error_of([&] { open_docker_archive(archive, ""); }).kind() == ErrorKind::usage);
            CHECK_THAT(error_of([&] { open_docker_archive(archive, "three"); }).render(),
                       ContainsSubstring("lab/one:v1, two:latest"));
            std::string layout = scratch / ("layout" + format + (compressed ? "z" : ""));
            write_oci_layout(image, layout, "t");
            OciImage copy = open_oci_layout(layout, "t");
            CHECK(copy.config_digest == image.config_digest);
            verify_blobs(copy);
        }
    }
    output_of({"tar", "-cf", scratch / "plain.tar", "-C", tree, "one.json"});
    CHECK(error_of([&] { open_docker_archive(scratch / "plain.tar", ""); }).kind() ==
          ErrorKind::invalid_image);
    std::string cut = read_file(scratch / "saved.tar").substr(0, 700);
    spit(scratch / "cut.tar", cut);
    CHECK(error_of([&] { open_docker_archive(scratch / "cut.tar", ""); }).kind() ==
          ErrorKind::invalid_archive);
}
