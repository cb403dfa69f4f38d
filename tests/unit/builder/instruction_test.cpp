#include "instruction.hpp"

#include "catch.hpp"
#include "recipe.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::builder;

namespace {
Instruction one(const std::string& text) {
    return type_instruction(parse_syntax(text, "Dockerfile").nodes.at(0), "Dockerfile");
}
}  // namespace

TEST_CASE("every instruction with its flags", "[instruction]") {
    const auto copy = std::get<Copy>(
        one("COPY --from=a --chown=1:2 --chmod=7 --link --parents --exclude=x --exclude=y s d\n")
            .value);
    CHECK(copy.from == "a");
    CHECK(copy.link);
    CHECK(copy.exclude.size() == 2);
    const auto add =
        std::get<Copy>(one("ADD --keep-git-dir=true --checksum=c --unpack=false s d\n").value);
    CHECK(add.unpack == false);
    CHECK(add.keep_git_dir);
    const auto run = std::get<Run>(
        one("RUN --mount=type=cache,target=/a --mount=target=/b --network=none x\n").value);
    CHECK(run.mounts.size() == 2);
    const auto health = std::get<Healthcheck>(
        one("HEALTHCHECK --interval=1m30s --timeout=5s --retries=3 CMD a b\n").value);
    CHECK(health.interval == 90'000'000'000);
    CHECK(health.test == std::vector<std::string>{"CMD-SHELL", "a b"});
    CHECK(std::get<From>(one("FROM --platform=linux/amd64 x AS Name\n").value).stage_name ==
          "name");
    CHECK(std::get<OnBuild>(one("ONBUILD  RUN <<E\nx\nE\n").value).trigger == "RUN <<E\nx\nE");
}

TEST_CASE("what is refused, with the line", "[instruction]") {
    for (const char* text : {"FROM a b\n",
                             "FROM a AS 1x\n",
                             "COPY a\n",
                             "COPY --from a b\n",
                             "COPY --link=maybe a b\n",
                             "COPY --chown=1 --chown=2 a b\n",
                             "RUN --network=x y\n",
                             "HEALTHCHECK NONE x\n",
                             "HEALTHCHECK CMD\n",
                             "HEALTHCHECK --interval=soon CMD x\n",
                             "HEALTHCHECK TCP 1\n",
                             "ONBUILD FROM x\n",
                             "ONBUILD ONBUILD RUN x\n",
                             "SHELL sh -c\n",
                             "USER\n",
                             "ENV\n",
                             "VOLUME [\"\"]\n",
                             "ARG =x\n",
                             "MAINTAINER\n",
                             "COPY a <<E\nE\n"}) {
        INFO(text);
        CHECK_THROWS_WITH(one(text), ContainsSubstring("Dockerfile, line 1: "));
    }
}

TEST_CASE("an unknown instruction comes with a guess", "[instruction]") {
    try {
        read_recipe("FROM scratch\n\n# x\nRUNN x\n", "Dockerfile");
        FAIL("not refused");
    } catch (const Error& error) {
        CHECK(error.message() == "Dockerfile, line 4: unknown instruction \"RUNN\"");
        CHECK(error.hint() == "did you mean RUN?");
    }
}
