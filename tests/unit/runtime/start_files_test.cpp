// Which files a plan's command is expected to start with.
#include "start_files.hpp"

#include "catch.hpp"

using namespace slipway::runtime;

namespace {

using Strings = std::vector<std::string>;

RunPlan plan_of(Strings argv) {
    RunPlan plan;
    plan.argv = std::move(argv);
    plan.environment = {"HOME=/root", "PATH=/opt/bin:/usr/bin"};
    plan.working_directory = "/srv/job";
    return plan;
}

}  // namespace

TEST_CASE("a command without a slash is looked for along the PATH of the plan") {
    CHECK(files_of_start(plan_of({"python3", "x.py"})).programs ==
          Strings{"/opt/bin/python3", "/usr/bin/python3"});
    CHECK(files_of_start(plan_of({"/bin/true"})).programs == Strings{"/bin/true"});
    CHECK(files_of_start(plan_of({"bin/tool"})).programs == Strings{"/srv/job/bin/tool"});
    CHECK(files_of_start(plan_of({})).programs.empty());
    CHECK(files_of_start(plan_of({""})).programs.empty());
}

TEST_CASE("a shell's place is that of the first shell that is there") {
    RunPlan plan = plan_of({"sh"});
    plan.shells = {"/bin/bash", "sh"};
    CHECK(files_of_start(plan).programs == Strings{"/bin/bash", "/opt/bin/sh", "/usr/bin/sh"});
}

TEST_CASE("accounts that are merged are read from the image first, others are not") {
    RunPlan plan = plan_of({"true"});
    MountStep step;
    step.kind = MountStep::Kind::file;
    step.destination = "/etc/passwd";
    step.merge = true;
    plan.mounts.push_back(step);
    step.destination = "/etc/hosts";
    step.merge = false;
    plan.mounts.push_back(step);
    CHECK(files_of_start(plan).files == Strings{"/etc/passwd"});
}
