// Which requests a site's rules refuse, and how the refusal is worded.
// Must not: read a policy of the host.
#include "policy.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::runtime;
using image::RefKind;

namespace {

ImageFacts facts_of(RefKind format) {
    ImageFacts facts;
    facts.format = format;
    facts.path = "/apps/images/x.sqfs";
    facts.owner = 1000;
    facts.owner_name = "ann";
    return facts;
}

std::string refusal_of(const std::string& rules, const ImageFacts& image,
                       const RunSpec& spec = {}) {
    try {
        check_policy(parse_policy(rules, "/site/policy.json"), image, spec);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::host_forbids);
        CHECK_FALSE(error.hint().empty());
        return error.render();
    }
    return "";
}

}  // namespace

TEST_CASE("no rule refuses nothing") {
    CHECK(refusal_of("{}", facts_of(RefKind::registry)).empty());
}

TEST_CASE("every format has its name in a policy") {
    const RefKind kind =
        GENERATE(RefKind::directory, RefKind::squashfs, RefKind::sif, RefKind::oci_layout,
                 RefKind::docker_archive, RefKind::registry, RefKind::stored);
    int allowed = 0;
    for (const auto& name : policy_formats())
        allowed += refusal_of("{\"formats\": [\"" + name + "\"]}", facts_of(kind)).empty();
    CHECK(allowed == 1);
    CHECK_THAT(refusal_of("{\"formats\": []}", facts_of(kind)),
               ContainsSubstring("allowed: nothing"));
}

TEST_CASE("every write mode is allowed by its own name alone") {
    const size_t number = GENERATE(size_t{0}, size_t{1}, size_t{2});
    RunSpec spec;
    spec.mounts.write = number == 0;
    if (number == 1) spec.mounts.overlay_tmpfs = "";
    if (number == 2) spec.mounts.overlay_directory = "/scratch/changes";
    const ImageFacts image = facts_of(RefKind::squashfs);
    for (size_t i = 0; i < policy_write_modes().size(); ++i)
        CHECK(refusal_of("{\"write_modes\": [\"" + policy_write_modes()[i] + "\"]}", image, spec)
                  .empty() == (i == number));
}

TEST_CASE("a directory's name is no prefix of another's") {
    const ImageFacts image = facts_of(RefKind::squashfs);
    CHECK(refusal_of(R"({"paths": ["/apps/images"]})", image).empty());
    CHECK(refusal_of(R"({"paths": ["/"]})", image).empty());
    CHECK(refusal_of(R"({"paths": ["/apps/images/x.sqfs"]})", image).empty());
    CHECK_FALSE(refusal_of(R"({"paths": ["/apps/im"]})", image).empty());
    CHECK_FALSE(refusal_of(R"({"paths": []})", image).empty());
}

TEST_CASE("self is the caller, by whatever name") {
    ImageFacts image = facts_of(RefKind::squashfs);
    CHECK_FALSE(refusal_of(R"({"owners": ["self"]})", image).empty());
    image.own = true;
    CHECK(refusal_of(R"({"owners": ["self"]})", image).empty());
    image.owner_name.clear();
    CHECK_THAT(refusal_of(R"({"owners": ["ann"]})", image), ContainsSubstring("uid 1000"));
}

TEST_CASE("the refusal names file, rule and whom to ask") {
    const std::string text =
        refusal_of(R"({"owners": ["root"], "contact": "help@site"})", facts_of(RefKind::squashfs));
    CHECK_THAT(text, ContainsSubstring("requested by: \"owners\" in \"/site/policy.json\""));
    CHECK_THAT(text, ContainsSubstring("ask: help@site"));
}
