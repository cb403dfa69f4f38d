// How the layers of configuration become one, and what of it reaches a request.
// Must not: read a file of the host's.
#include "configuration.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

const std::map<std::string, std::string> kVariables = {{"HOME", "/home/ann"}, {"USER", "ann"}};

Configuration merged(const std::string& site, const std::string& user,
                     std::map<std::string, std::string> more = {}) {
    more.insert(kVariables.begin(), kVariables.end());
    return merge_configuration(
        {{"/site/config.json", Json::parse(site)}, {"/user/config.json", Json::parse(user)}}, more);
}

}  // namespace

TEST_CASE("all layers are kept, the winner last") {
    const auto configuration =
        merged(R"({"store": "/a"})", R"({"store": "/b"})", {{"SLIPWAY_STORE", "/c"}});
    const auto& layers = configuration.settings.at("store");
    REQUIRE(layers.size() == 4);
    CHECK(layers[0].origin == "built in");
    CHECK(layers[1].value == "/a");
    CHECK(layers[2].origin == "\"store\" in /user/config.json");
    CHECK(configuration.value("store") == "/c");
    CHECK(merged("{}", "{}").value("store").empty());
    CHECK(merged(R"({"store": "/a"})", R"({"store": null})").value("store").empty());
}

TEST_CASE("variables and the home directory are put in") {
    CHECK(merged(R"({"store": "/s/$USER/x"})", "{}").value("store") == "/s/ann/x");
    CHECK(merged(R"({"store": "/s/${USER}s"})", "{}").value("store") == "/s/anns");
    CHECK(merged(R"({"store": "~/x"})", "{}").value("store") == "/home/ann/x");
    CHECK_THROWS_AS(merged(R"({"store": "/s/${USER"})", "{}"), Error);
    CHECK_THROWS_AS(merged(R"({"store": "/s/$NOBODY"})", "{}"), Error);
}

TEST_CASE("options win, and the configuration fills what they left open") {
    const auto configuration = merged(R"({"session": "s", "linger": "5", "stage": "auto"})", "{}");
    RunOptions options;
    options.linger = "9";
    apply_configuration(configuration, options);
    CHECK(options.session == "s");
    CHECK(options.linger == "9");
    CHECK(options.stage == "auto");
    RunOptions without;
    without.stage = "none";
    apply_configuration(configuration, without);
    CHECK_FALSE(without.stage.has_value());
}

TEST_CASE("changes of the environment come before those of the command line") {
    const auto configuration =
        merged(R"({"env": {"A": "1"}, "unset_env": ["B*"]})", R"({"env": {"A": "2"}})");
    RunOptions options;
    options.env = {{EnvChange::Kind::set, {"A=3", "--env, argument 1"}}};
    apply_configuration(configuration, options);
    REQUIRE(options.env.size() == 4);
    CHECK(options.env[0].typed.text == "A=1");
    CHECK(options.env[1].kind == EnvChange::Kind::unset);
    CHECK(options.env[2].typed.text == "A=2");
    CHECK(options.env[2].typed.origin == "\"env\" in /user/config.json");
    CHECK(options.env[3].typed.text == "A=3");
}
