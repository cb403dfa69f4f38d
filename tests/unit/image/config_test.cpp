// The image configuration between JSON and our types.
// Must not: read files.
#include "slipway/image/config.hpp"

#include "catch.hpp"

using namespace slipway;
using namespace slipway::image;

TEST_CASE("config: a round trip keeps everything, also what we do not know") {
    Json json = parse_json(R"({
        "architecture": "arm64", "os": "linux", "created": "2024-01-02T03:04:05Z",
        "config": {"Env": ["PATH=/bin", "A=b=c"], "Entrypoint": ["/init"], "Cmd": ["x"],
                   "Shell": ["/bin/bash", "-c"], "OnBuild": ["RUN x"], "WorkingDir": "/w",
                   "User": "1:2", "StopSignal": "SIGINT", "ExposedPorts": {"80/tcp": {}},
                   "Volumes": {"/data": {}}, "Labels": {"k": "v"},
                   "Healthcheck": {"Test": ["NONE"]}},
        "rootfs": {"type": "layers", "diff_ids":
            ["sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"]},
        "history": [{"created_by": "x", "empty_layer": true}, {"comment": "c"}]})",
                           "test");
    ImageConfig config = config_from_json(json, "test");
    CHECK(config.get_env("A") == "b=c");
    CHECK(config.exposed_ports == std::vector<std::string>{"80/tcp"});
    CHECK(config.diff_ids.size() == 1);
    CHECK(config.history.at(0).empty_layer);
    CHECK(config.unknown.contains("Healthcheck"));
    CHECK(config_to_json(config) == json);
}

TEST_CASE("config: what tools really write is understood") {
    ImageConfig config =
        config_from_json(parse_json(R"({"config": {"Env": null, "Cmd": null, "Entrypoint": "single",
                       "Volumes": null, "Env": ["A=1", "B", "A=2"]}, "rootfs": null})",
                                    "test"),
                         "test");
    CHECK(config.entrypoint == std::vector<std::string>{"single"});
    CHECK(config.env == std::vector<std::string>{"A=2", "B="});
    CHECK(config.cmd.empty());
}

TEST_CASE("config: set_env keeps the place of a key") {
    ImageConfig config;
    config.set_env("A", "1");
    config.set_env("AB", "2");
    config.set_env("A", "3");
    CHECK(config.env == std::vector<std::string>{"A=3", "AB=2"});
    CHECK(!config.get_env("B"));
    CHECK(config.get_env("A") == "3");
}

TEST_CASE("config: wrong types are told with the subject") {
    for (const char* text :
         {R"([])", R"({"config": 3})", R"({"config": {"Env": "x"}})",
          R"({"config": {"Labels": {"a": 1}}})", R"({"rootfs": {"diff_ids": ["md5:00"]}})",
          R"({"architecture": 3})", R"({"config": {"Env": ["=x"]}})"}) {
        INFO(text);
        try {
            config_from_json(parse_json(text, "the test"), "the test");
            FAIL("no error was thrown");
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::invalid_image);
        }
    }
}
