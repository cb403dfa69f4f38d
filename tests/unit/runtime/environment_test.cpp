// Which variables enter a container.
// Must not: read the test's own environment.
#include "environment.hpp"

#include "catch.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

const Visible kNothing = [](const std::string&) { return false; };

Environment environment_of(const Environment& host, const image::ImageConfig& config = {},
                           const RunSpec& spec = {}, const Visible& visible = kNothing) {
    Environment environment;
    for (const std::string& entry : plan_environment(spec, host, config, visible))
        environment.emplace(entry.substr(0, entry.find('=')), entry.substr(entry.find('=') + 1));
    return environment;
}

}  // namespace

TEST_CASE("what breaks containers stays outside") {
    const char* name =
        GENERATE("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONPATH", "PYTHONHOME",
                 "PERL5LIB", "PERL5OPT", "MODULEPATH", "LMOD_CMD", "LOADEDMODULES", "GCONV_PATH",
                 "LOCPATH", "BASH_ENV", "TMPDIR", "XDG_RUNTIME_DIR", "BASH_FUNC_module%%", "SHELL");
    CAPTURE(name);
    CHECK(environment_of({{name, "/host"}}).count(name) == 0);
}

TEST_CASE("what launchers and libraries say goes in") {
    const char* name = GENERATE("SLURM_PROCID", "PMI_RANK", "PMI_FD", "PMIX_NAMESPACE",
                                "OMPI_COMM_WORLD_RANK", "NCCL_DEBUG", "UCX_TLS", "OMP_NUM_THREADS",
                                "CUDA_VISIBLE_DEVICES", "LANG", "FOO", "http_proxy");
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

TEST_CASE("an exact environment is taken as it is") {
    RunSpec spec;
    spec.env.exact = {{"B=2", "A=1"}};
    spec.env.settings = {{"C", "3", ""}};
    image::ImageConfig config;
    config.env = {"PATH=/image"};
    const std::vector<std::string> wanted{"B=2", "A=1"};
    CHECK(plan_environment(spec, {{"LANG", "C"}}, config, kNothing) == wanted);
    CHECK(plan_host_environment(spec, {{"LANG", "C"}}) == wanted);
}
