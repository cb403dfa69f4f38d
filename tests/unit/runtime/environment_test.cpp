// Which variables enter a container.
// Must not: read the test's own environment.
#include "environment.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

const Visible kNothing = [](const std::string&) { return false; };

Environment environment_of(const Environment& host, const image::ImageConfig& config = {},
                           const RunSpec& spec = {}, const Visible& visible = kNothing) {
    Environment environment;
    for (const auto& decision : plan_environment(spec, host, config, visible))
        if (decision.value) environment.emplace(decision.name, *decision.value);
    return environment;
}

/// What was decided last about a variable: {value or "-", origin}.
std::pair<std::string, std::string> decided(const std::vector<EnvDecision>& decisions,
                                            const std::string& name) {
    for (const auto& decision : decisions)
        if (decision.name == name) return {decision.value.value_or("-"), decision.origin};
    return {};
}

using Decided = std::pair<std::string, std::string>;

}  // namespace

TEST_CASE("what breaks containers stays outside") {
    const char* name =
        GENERATE("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONPATH", "PYTHONHOME",
                 "PERL5LIB", "PERL5OPT", "MODULEPATH", "LMOD_CMD", "LOADEDMODULES", "GCONV_PATH",
                 "LOCPATH", "BASH_ENV", "TMPDIR", "XDG_RUNTIME_DIR", "BASH_FUNC_module%%", "SHELL",
                 "I_MPI_ROOT", "OPAL_PREFIX", "FI_PROVIDER_PATH", "NODE_PATH");
    CAPTURE(name);
    CHECK(environment_of({{name, "/host"}}).count(name) == 0);
}

TEST_CASE("what launchers and libraries say goes in") {
    const char* name = GENERATE("SLURM_PROCID", "PMI_RANK", "PMI_FD", "PMIX_NAMESPACE",
                                "OMPI_COMM_WORLD_RANK", "NCCL_DEBUG", "UCX_TLS", "OMP_NUM_THREADS",
                                "CUDA_VISIBLE_DEVICES", "LANG", "FOO", "http_proxy", "NODE_RANK",
                                "MASTER_ADDR", "I_MPI_FABRICS", "HYDRA_LAUNCHER", "FI_PROVIDER");
    CAPTURE(name);
    CHECK(environment_of({{name, "1"}}).at(name) == "1");
}

TEST_CASE("every dropped variable has a reason, and one row") {
    for (const auto& row : dropped_variables()) {
        CAPTURE(row.pattern);
        CHECK_FALSE(row.reason.empty());
        CHECK(find_dropped(row.pattern) == &row);
    }
}

TEST_CASE("PATH is the image's, with /bin, never the host's") {
    CHECK(environment_of({{"PATH", "/host/bin"}}).at("PATH") ==
          "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    image::ImageConfig config;
    config.env = {"PATH=/opt/x/bin:/usr/bin", "FOO=image"};
    CHECK(environment_of({{"FOO", "host"}}, config).at("PATH") == "/opt/x/bin:/usr/bin:/bin");
    CHECK(environment_of({{"FOO", "host"}}, config).at("FOO") == "image");
}

TEST_CASE("HOME and TMPDIR stay where they are seen inside") {
    const Environment host{{"HOME", "/home/u"}, {"TMPDIR", "/tmp/u"}};
    CHECK(environment_of(host).at("HOME") == "/");
    const Visible tmp = [](const std::string& path) { return path == "/tmp/u"; };
    CHECK(environment_of(host, {}, {}, tmp).at("TMPDIR") == "/tmp/u");
    const Visible home = [](const std::string& path) { return path == "/home/u"; };
    CHECK(environment_of(host, {}, {}, home).at("HOME") == "/home/u");
}

TEST_CASE("settings come last, in order, and may bring a dropped variable back") {
    RunSpec spec;
    spec.env.settings = {{"A", "1", ""},
                         {"A", "2", ""},
                         {"LD_LIBRARY_PATH", std::nullopt, ""},
                         {"ABSENT", std::nullopt, ""}};
    const Environment host{{"A", "0"}, {"LD_LIBRARY_PATH", "/host/lib"}};
    const Environment planned = environment_of(host, {}, spec);
    CHECK(planned.at("A") == "2");
    CHECK(planned.at("LD_LIBRARY_PATH") == "/host/lib");
    CHECK(planned.count("ABSENT") == 0);
}

TEST_CASE("a clean environment (--clean-env) leaves what a launcher, proxies and a terminal need, and the image's ENV") {
    const Environment host{{"SLURM_PROCID", "3"}, {"NCCL_DEBUG", "INFO"}, {"TERM", "xterm"},
                           {"https_proxy", "p"},  {"EDITOR", "vi"},       {"HOME", "/home/u"},
                           {"LD_PRELOAD", "/x"}};
    RunSpec spec;
    spec.env.clean = true;
    image::ImageConfig config;
    config.env = {"APP=1"};
    const Environment inside = environment_of(host, config, spec);
    CHECK(inside == Environment{{"SLURM_PROCID", "3"},
                                {"NCCL_DEBUG", "INFO"},
                                {"TERM", "xterm"},
                                {"https_proxy", "p"},
                                {"APP", "1"},
                                {"HOME", "/"},
                                {"PATH", inside.at("PATH")},
                                {"container", "slipway"}});
    spec.env.settings = {{"EDITOR", std::nullopt, ""}};
    CHECK(environment_of(host, config, spec).at("EDITOR") == "vi");
}

TEST_CASE("keeping all (--keep-env) keeps what would be dropped; the image's ENV still counts") {
    RunSpec spec;
    spec.env.keep = true;
    image::ImageConfig config;
    config.env = {"FOO=image"};
    const Environment inside = environment_of(
        {{"LD_LIBRARY_PATH", "/x"}, {"PATH", "/host"}, {"HOME", "/h"}, {"FOO", "h"}}, config, spec);
    CHECK(inside.at("LD_LIBRARY_PATH") == "/x");
    CHECK(inside.at("PATH") == "/host:/bin");
    CHECK(inside.at("HOME") == "/h");
    CHECK(inside.at("FOO") == "image");
}

TEST_CASE("the image's ENV does not move a rank, but replaces other variables of the host") {
    image::ImageConfig config;
    config.env = {"CUDA_VISIBLE_DEVICES=all", "OMP_NUM_THREADS=1", "RANK=0"};
    const auto decisions = plan_environment(
        RunSpec{}, {{"CUDA_VISIBLE_DEVICES", "2"}, {"OMP_NUM_THREADS", "8"}}, config, kNothing);
    CHECK(decided(decisions, "CUDA_VISIBLE_DEVICES") == Decided{"2", "host"});
    CHECK(decided(decisions, "OMP_NUM_THREADS") == Decided{"1", "image ENV"});
    CHECK(decided(decisions, "RANK") == Decided{"0", "image ENV"});
}

TEST_CASE("changes apply in order: values, the host's, prefixes, globs") {
    using Kind = EnvSetting::Kind;
    RunSpec spec;
    spec.env.settings = {{"MODULE", std::nullopt, "--env, argument 1", Kind::prefix},
                         {"FOO_@(A|B)", std::nullopt, "--unset-env, argument 1", Kind::unset},
                         {"FOO_B", "again", "--env, argument 2"},
                         {"EMPTY", "", "--env, argument 3"},
                         {"NOT_THERE", std::nullopt, "--env, argument 4"}};
    const auto decisions = plan_environment(spec,
                                            {{"MODULEPATH", "/m"},
                                             {"MODULESHOME", "/h"},
                                             {"FOO_A", "1"},
                                             {"FOO_B", "2"},
                                             {"FOO_C", "3"}},
                                            {}, kNothing);
    CHECK(decided(decisions, "MODULEPATH") == Decided{"/m", "--env, argument 1"});
    CHECK(decided(decisions, "MODULESHOME") == Decided{"/h", "--env, argument 1"});
    CHECK(decided(decisions, "FOO_A") == Decided{"-", "--unset-env, argument 1"});
    CHECK(decided(decisions, "FOO_B") == Decided{"again", "--env, argument 2"});
    CHECK(decided(decisions, "FOO_C") == Decided{"3", "host"});
    CHECK(decided(decisions, "EMPTY") == Decided{"", "--env, argument 3"});
    CHECK(decided(decisions, "NOT_THERE") == Decided{"-", "--env, argument 4"});
}

TEST_CASE("another user inside has its own name and home") {
    EnvUser user;
    user.other = true;
    user.name = "bob";
    user.home = "/home/bob";
    user.own_home = false;
    const Visible all = [](const std::string&) { return true; };
    const Environment host{{"HOME", "/home/u"}, {"USER", "u"}};
    auto decisions = plan_environment(RunSpec{}, host, {}, all, user);
    CHECK(decided(decisions, "HOME").first == "/home/bob");
    CHECK(decided(decisions, "USER").first == "bob");
    CHECK(decided(decisions, "LOGNAME") == Decided{});
    user.name.clear();
    decisions = plan_environment(RunSpec{}, host, {}, all, user);
    CHECK(decided(decisions, "USER").first == "-");
}

TEST_CASE("an env file is read as podman reads it") {
    const auto settings = parse_env_file(
        "# comment\n\n  A=1 \nB=\"x\" # y\nC=a=b\r\nD\nE*\nF=", "f.env", "--env-file, argument 1");
    REQUIRE(settings.size() == 6);
    CHECK((settings[0].name == "A" && settings[0].value == "1 "));
    CHECK(settings[1].value == "\"x\" # y");
    CHECK(settings[2].value == "a=b");
    CHECK((settings[3].name == "D" && !settings[3].value));
    CHECK((settings[4].name == "E" && settings[4].kind == EnvSetting::Kind::prefix));
    CHECK(settings[5].value == "");
    CHECK(settings[5].origin == "--env-file, argument 1, f.env:8");
    for (const char* wrong : {"export A=1\n", "=1\n", "A B\n"}) {
        CAPTURE(wrong);
        CHECK_THROWS_AS(parse_env_file(wrong, "f.env", "x"), Error);
    }
}

TEST_CASE("an exact environment is taken as it is") {
    RunSpec spec;
    spec.env.exact = {{"B=2", "A=1"}};
    spec.env.settings = {{"C", "3", ""}};
    image::ImageConfig config;
    config.env = {"PATH=/image"};
    const std::vector<std::string> wanted{"B=2", "A=1"};
    CHECK(environment_strings(plan_environment(spec, {{"LANG", "C"}}, config, kNothing)) == wanted);
    CHECK(environment_strings(plan_host_environment(spec, {{"LANG", "C"}})) == wanted);
}
