#include "plan.hpp"

#include "catch.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::builder;

namespace {

PlanFacts no_world() {
    PlanFacts facts;
    facts.base = [](const std::string& name) -> BaseFacts {
        BaseFacts base;
        base.config.env = {"FROM_BASE=" + name};
        base.config.cmd = {"base"};
        return base;
    };
    facts.context_content = [](const CopyAction& action) {
        return "content of " + action.sources[0];
    };
    facts.preload_content = [](const std::string& name) { return name; };
    return facts;
}

BuildPlan plan(const std::string& dockerfile, std::map<std::string, std::string> args = {},
               const std::string& target = "") {
    PlanRequest request;
    request.platform = "linux/amd64";
    request.build_args = std::move(args);
    request.target = target;
    return plan_steps(read_recipe(dockerfile, "Dockerfile"), request, no_world());
}

const Step& last(const BuildPlan& plan) { return plan.steps[plan.target]; }

}  // namespace

TEST_CASE("keys depend on what a step sees, not on labels", "[plan]") {
    const std::string before = last(plan("FROM a\nARG x=1\nRUN y\n")).key;
    CHECK(last(plan("FROM a\nLABEL l=1\nARG x=1\nRUN y\n")).key == before);
    CHECK(last(plan("FROM a\nARG x=2\nRUN y\n")).key != before);
    CHECK(last(plan("FROM a\nARG x=1\nRUN y\n", {{"x", "2"}})).key != before);
    CHECK(last(plan("FROM a\nARG x=1\nRUN y\n", {{"http_proxy", "2"}})).key == before);
    CHECK(last(plan("FROM a\nUSER u\nARG x=1\nRUN y\n")).key != before);
    CHECK(last(plan("FROM a\nCOPY f /\n")).key != last(plan("FROM a\nCOPY g /\n")).key);
}

TEST_CASE("only the stages that the target needs are planned", "[plan]") {
    const std::string text =
        "FROM a AS one\nRUN 1\nFROM b AS two\nRUN 2\nFROM c AS three\nCOPY --from=one /x /y\n";
    const BuildPlan whole = plan(text);
    CHECK(whole.steps.size() == 4);
    CHECK(last(whole).copy.from_step == 1);
    CHECK(plan(text, {}, "TWO").steps.size() == 2);
    CHECK(plan(text, {}, "0").steps.size() == 2);
    CHECK_THROWS_WITH(plan(text, {}, "four"), ContainsSubstring("has no stage \"four\""));
}

TEST_CASE("ARG: build argument, default, global value; ENV beats ARG", "[plan]") {
    const std::string text =
        "ARG g=global\nFROM a$g\nARG g\nARG d=default\nARG e=arg\nENV e=env\nARG TARGETARCH\n"
        "RUN x\n";
    const auto environment = [](const BuildPlan& p) { return last(p).run.environment; };
    const auto has = [](const std::vector<std::string>& list, const std::string& item) {
        return std::find(list.begin(), list.end(), item) != list.end();
    };
    const auto plain = environment(plan(text));
    for (const char* item : {"g=global", "d=default", "e=env", "TARGETARCH=amd64"}) {
        INFO(item);
        CHECK(has(plain, item));
    }
    CHECK_FALSE(has(plain, "e=arg"));
    CHECK(has(environment(plan(text, {{"d", "x"}, {"g", "y"}})), "d=x"));
    CHECK(plan(text, {{"g", "y"}}).steps[0].image == "ay");
    CHECK(plan(text, {{"typo", "y"}}).warnings.size() == 1);
}

TEST_CASE("ENTRYPOINT clears an inherited CMD only", "[plan]") {
    CHECK(last(plan("FROM a\nENTRYPOINT [\"e\"]\n")).config.cmd.empty());
    CHECK(last(plan("FROM a\nCMD [\"c\"]\nENTRYPOINT [\"e\"]\n")).config.cmd ==
          std::vector<std::string>{"c"});
    CHECK(last(plan("FROM a\nENTRYPOINT e  f\n")).config.entrypoint ==
          std::vector<std::string>{"/bin/sh", "-c", "e  f"});
}

TEST_CASE("RUN's heredocs", "[plan]") {
    CHECK(last(plan("FROM a\nRUN <<E\nx\ny\nE\n")).run.argv.back() == "x\ny\n");
    CHECK(last(plan("FROM a\nRUN <<-E\n\tx\nE\n")).run.argv.back() == "x\n");
    CHECK(last(plan("FROM a\nRUN cat <<E\nx\nE\n")).run.argv.back() == "cat <<E\nx\nE");
    const Step script = last(plan("FROM a\nRUN <<E\n#!/x\nE\n"));
    CHECK(script.run.argv.back() == "/dev/pipes/E");
    CHECK(script.run.scripts.at(0).content == "#!/x\n");
}

TEST_CASE("mounts are understood or refused with their line", "[plan]") {
    const MountAction cache =
        last(plan("FROM a\nWORKDIR /w\nRUN --mount=type=cache,target=c,sharing=locked x\n"))
            .run.mounts.at(0);
    CHECK(cache.target == "/w/c");
    CHECK(cache.cache_id == "/w/c");
    CHECK(cache.exclusive);
    CHECK_FALSE(cache.read_only);
    for (const char* mount : {"type=secret,id=x", "type=ssh", "type=bind,target=/x,rw"}) {
        INFO(mount);
        CHECK_THROWS_WITH(plan(std::string("FROM a\nRUN --mount=") + mount + " x\n"),
                          ContainsSubstring("Dockerfile, line 2"));
    }
    CHECK_THROWS_AS(plan("FROM a\nRUN --mount=target=/ x\n"), Error);
    CHECK_THROWS_AS(plan("FROM a\nRUN --mount=target=/x,bogus=1 x\n"), Error);
    CHECK_THROWS_AS(plan("FROM a\nARG s=b\nRUN --mount=target=/x,from=$s x\n"), Error);
}

TEST_CASE("COPY: destinations and what is refused", "[plan]") {
    CHECK(last(plan("FROM a\nWORKDIR /w\nCOPY a b\n")).copy.destination == "/w/b");
    CHECK(last(plan("FROM a\nWORKDIR /w\nCOPY a .\n")).copy.destination == "/w/");
    CHECK(last(plan("FROM a\nCOPY a b /d/\n")).copy.sources.size() == 2);
    CHECK_THROWS_AS(plan("FROM a\nCOPY a b /d\n"), Error);
    CHECK_THROWS_WITH(plan("FROM a\nADD http://x/y /\n"), ContainsSubstring("line 2"));
    CHECK_THROWS_WITH(
        plan("FROM a\nCOPY --from=later x /\nFROM b AS later\nFROM a\nCOPY --from=0 x /\n"),
        ContainsSubstring("comes later"));
}

TEST_CASE("the plan as JSON", "[plan]") {
    const Json json = to_json(plan("FROM a\nENV x=1\nRUN y\n"));
    CHECK(json["steps"].size() == 3);
    CHECK(json["steps"][2]["parent"] == 1);
    CHECK(json["steps"][2]["details"]["argv"] == Json({"/bin/sh", "-c", "y"}));
    CHECK(json["config"]["env"] == Json({"FROM_BASE=a", "x=1"}));
}
