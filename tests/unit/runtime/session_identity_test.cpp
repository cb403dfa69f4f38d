// Plans that fit into one session have one identity, and a difference can be told.
// Must not: depend on this host.
#include "session_identity.hpp"

#include "catch.hpp"

using namespace slipway::runtime;

namespace {

RunPlan plan_with(const MountStep& step) {
    RunPlan plan;
    plan.namespaces = {"user", "mount"};
    plan.image_identity = "1:2:3";
    plan.mounts = {step};
    return plan;
}

MountStep bind_of(const std::string& source) {
    MountStep step;
    step.source = source;
    step.destination = "/data";
    step.origin = "--bind, argument 1";
    return step;
}

}  // namespace

TEST_CASE("each member of a step but its origin counts for the identity") {
    const MountStep step = bind_of("/a");
    const std::string base = session_identity(plan_with(step));
    const auto differs = [&](auto change) {
        MountStep other = step;
        change(other);
        return session_identity(plan_with(other)) != base;
    };
    CHECK_FALSE(differs([](MountStep& s) { s.origin = "default"; }));
    CHECK(differs([](MountStep& s) { s.kind = MountStep::Kind::tmpfs; }));
    CHECK(differs([](MountStep& s) { s.if_missing = MountStep::IfMissing::skip; }));
    CHECK(differs([](MountStep& s) { s.source = "/b"; }));
    CHECK(differs([](MountStep& s) { s.image_offset_bytes = 4096; }));
    CHECK(differs([](MountStep& s) { s.destination = "/b"; }));
    CHECK(differs([](MountStep& s) { s.read_only = true; }));
    CHECK(differs([](MountStep& s) { s.recursive = false; }));
    CHECK(differs([](MountStep& s) { s.no_exec = true; }));
    CHECK(differs([](MountStep& s) { s.no_suid = true; }));
    CHECK(differs([](MountStep& s) { s.no_devices = true; }));
    CHECK(differs([](MountStep& s) { s.make_source = true; }));
    CHECK(differs([](MountStep& s) { s.identity = "5"; }));
    CHECK(differs([](MountStep& s) { s.options = "size=1m"; }));
    CHECK(differs([](MountStep& s) { s.content = "x"; }));
    CHECK(differs([](MountStep& s) { s.merge = true; }));
    CHECK(differs([](MountStep& s) { s.fallback = "x"; }));
}

TEST_CASE("text cannot move from one member of a step to the next unseen") {
    MountStep first = bind_of("/a"), second = first;
    first.content = "one";
    second.fallback = "one";
    CHECK(session_identity(plan_with(first)) != session_identity(plan_with(second)));
    CHECK(session_identity(plan_with(bind_of("/a\" on \"/data"))).find("\\\"") !=
          std::string::npos);
}

TEST_CASE("a difference names both sides") {
    const auto lines = identity_differences(session_identity(plan_with(bind_of("/a"))),
                                            session_identity(plan_with(bind_of("/b"))));
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] == "this run: bind \"/a\" on \"/data\", writable, if missing: fail");
    CHECK(lines[1] == "the session: bind \"/b\" on \"/data\", writable, if missing: fail");
    CHECK(identity_differences("a\nb\nc\n", "c\n", 1) ==
          std::vector<std::string>{"this run: a", "this run: 1 more"});
}

TEST_CASE("the hash is FNV-1a of 128 bits") {
    // Source: the test vectors of RFC 9923 (FNV-1a, 128 bits, "" and "a").
    CHECK(session_hash("") == "6c62272e07bb014262b821756295c58d");
    CHECK(session_hash("a") == "d228cb696f1a8caf78912b704e4a8964");
}
