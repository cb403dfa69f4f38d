// What `slipway run` accepts, and how it words what it does not.
// Must not: need an image or a namespace.
#include "run_spec.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

BindSpec bind_of(const std::string& text) {
    RunOptions options;
    options.binds = {{text, "--bind, argument 1"}};
    return make_run_spec(options).mounts.binds.at(0);
}

std::string error_of(const RunOptions& options) {
    try {
        make_run_spec(options);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::usage);
        return error.render();
    }
    return "no error";
}

}  // namespace

TEST_CASE("a bind has a source, a destination and options") {
    CHECK(bind_of("/data").destination == "/data");
    CHECK(bind_of("/data:/mnt/x/").destination == "/mnt/x");
    CHECK(bind_of("/data:/a/../b").destination == "/b");
    CHECK(bind_of("/data::ro").destination == "/data");
    CHECK(bind_of("/data:/x:ro").read_only);
    CHECK_FALSE(bind_of("/data:/x:rw").read_only);
    CHECK(bind_of("/data:/x:ro,optional").optional);
    CHECK(bind_of("relative:/x").source.front() == '/');
    CHECK(bind_of("/data:/x:create").create);
    CHECK_FALSE(bind_of("/data:/x:norec").recursive);
    const BindSpec strict = bind_of("/data:/x:noexec,nosuid,nodev");
    CHECK((strict.no_exec && strict.no_suid && strict.no_devices));
}

TEST_CASE("an overlay is memory of some size or a directory") {
    RunOptions options;
    options.overlay = "tmpfs";
    CHECK(make_run_spec(options).mounts.overlay_tmpfs == "");
    options.overlay = "tmpfs=12%";
    CHECK(make_run_spec(options).mounts.overlay_tmpfs == "12%");
    options.overlay = "/scratch/overlay";
    CHECK(make_run_spec(options).mounts.overlay_directory == "/scratch/overlay");
    options.overlay = GENERATE("", "tmpfs=", "tmpfs=0", "tmpfs=101%", "tmpfs=5q", "tmpfs=4kk");
    CHECK_THAT(error_of(options), ContainsSubstring("requested by: --overlay"));
}

TEST_CASE("a data pack names its place") {
    RunOptions options;
    options.data = {{"/packs/set.sqfs:/data:optional,noexec", "--data, argument 1"}};
    const BindSpec data = make_run_spec(options).mounts.data.at(0);
    CHECK(data.source == "/packs/set.sqfs");
    CHECK(data.destination == "/data");
    CHECK((data.optional && data.no_exec && data.read_only));
    const auto [text, named, destination] =
        GENERATE(std::tuple{"set.sqfs:/data", "set.sqfs", "/data"},
                 std::tuple{"lab/set:v2:/data:optional", "lab/set:v2", "/data"},
                 std::tuple{"docker://h.example:5000/a/set:v2:/data",
                            "docker://h.example:5000/a/set:v2", "/data"},
                 std::tuple{"docker://h.example/set@sha256:12:/d:noexec",
                            "docker://h.example/set@sha256:12", "/d"});
    options.data[0].text = text;
    CHECK(make_run_spec(options).mounts.data.at(0).named == named);
    CHECK(make_run_spec(options).mounts.data.at(0).destination == destination);
    options.data[0].text =
        GENERATE("docker://h.example:5000/set:v2", "/set.sqfs", "/set.sqfs:", ":/data",
                 "/set.sqfs:/data:rw", "/set.sqfs:/data:create", "/set.sqfs:data");
    CHECK_THAT(error_of(options), ContainsSubstring("requested by: --data, argument 1"));
}

TEST_CASE("a malformed bind is refused with its origin") {
    const char* text = GENERATE("", ":/x", "/a:b", "/a:/b:ro:x", "/a:/b:nosuch", "/a:/",
                                "/a:/b:ro,", "/a:/b:create,optional");
    CAPTURE(text);
    RunOptions options;
    options.binds = {{text, "--bind, argument 3"}};
    const std::string message = error_of(options);
    CHECK_THAT(message, ContainsSubstring("requested by: --bind, argument 3"));
    CHECK_THAT(message, ContainsSubstring("try: write SRC[:DST[:OPTIONS]]"));
}

TEST_CASE("a setting has a value or takes the host's") {
    RunOptions options;
    using Kind = EnvChange::Kind;
    options.env = {{Kind::set, {"A=b=c", "x"}}, {Kind::set, {"B", "x"}}, {Kind::set, {"C=", "x"}}};
    const RunSpec spec = make_run_spec(options);
    CHECK(spec.env.settings[0].name == "A");
    CHECK(spec.env.settings[0].value == "b=c");
    CHECK_FALSE(spec.env.settings[1].value.has_value());
    CHECK(spec.env.settings[2].value == "");
    options.env = {{Kind::set, {"=x", "--env, argument 1"}}};
    CHECK_THAT(error_of(options), ContainsSubstring("the variable has no name"));
}

TEST_CASE("sessions and directories") {
    RunOptions options;
    CHECK(make_run_spec(options).share_session);
    options.session = "none";
    CHECK_FALSE(make_run_spec(options).share_session);
    options.session = "mine";
    CHECK(make_run_spec(options).session_name == "mine");
    options.directory = "not/absolute";
    CHECK_THAT(error_of(options), ContainsSubstring("--cd"));
}

TEST_CASE("durations have units") {
    CHECK(parse_duration_ms("1.5", "--timeout") == 1500);
    CHECK(parse_duration_ms("90s", "--timeout") == 90'000);
    CHECK(parse_duration_ms("2h", "--timeout") == 7'200'000);
    CHECK(parse_duration_ms("1d", "--timeout") == 86'400'000);
    const char* text = GENERATE("", "-1", "abc", "1x", "inf", "nan", "1e300", "5 s");
    CAPTURE(text);
    CHECK_THROWS_AS(parse_duration_ms(text, "--timeout"), Error);
}
