// Golden plans of what is mounted and staged, compared with tests/plan/*.json.
// SLIPWAY_UPDATE_GOLDEN=1 writes the files anew: look at the difference before committing it.
#include "plan_mounts.hpp"

#include <cstdlib>

#include "catch.hpp"
#include "run_plan.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

constexpr uint64_t kGiga = 1'000'000'000;

HostFacts node() {
    HostFacts facts;
    facts.uid = 4711;
    facts.gid = 100;
    facts.user_name = "mara";
    facts.group_name = "users";
    facts.home = "/home/mara";
    facts.environment = {{"HOME", "/home/mara"}, {"TMPDIR", "/tmp/job7"}};
    facts.present = {"/dev", "/proc", "/sys", "/tmp", "/etc/hosts", "/lustre/data", "/home/mara"};
    facts.files["/lustre/set.sqfs"] = {"1:7:9:9", 3 * kGiga, true, "Lustre"};
    facts.launcher = {"slurm", "7.0"};
    return facts;
}

image::RunnableImage squashfs() {
    image::RunnableImage image;
    image.kind = image::RunnableImage::Kind::squashfs;
    image.path = "/lustre/digits.sqfs";
    image.identity = "1:2:3:4";
    return image;
}

image::RunnableImage host() {
    image::RunnableImage image;
    image.kind = image::RunnableImage::Kind::host;
    image.path = "/";
    return image;
}

RunSpec spec_of(const RunOptions& options) { return make_run_spec(options); }

void check_golden(const std::string& name, const RunPlan& plan) {
    const std::string path = std::string(SLIPWAY_SOURCE_DIR) + "/tests/plan/" + name + ".json";
    const std::string text = to_text(to_json(plan), 2) + "\n";
    if (std::getenv("SLIPWAY_UPDATE_GOLDEN") != nullptr) write_file_atomic(path, text);
    CHECK(text == read_file(path));
}

std::string error_of(const RunSpec& spec, const HostFacts& facts,
                     const image::RunnableImage& image) {
    try {
        plan_run(spec, facts, image);
    } catch (const Error& error) {
        return error.render();
    }
    return "no error";
}

}  // namespace

TEST_CASE("the plan of an overlay, a data pack with a bind inside, home and a private /tmp") {
    RunOptions options;
    options.command = {"train"};
    options.overlay = "/scratch/overlay";
    options.data = {{"/lustre/set.sqfs:/data", "--data, argument 1"},
                    {"/lustre/gone.sqfs:/gone:optional", "--data, argument 2"}};
    options.binds = {{"/lustre/data:/data/new:noexec,nosuid,nodev", "--bind, argument 1"},
                     {"/lustre/out:/out:create", "--bind, argument 2"}};
    options.home = options.private_tmp = true;
    check_golden("overlay-data", plan_run(spec_of(options), node(), squashfs()));
}

TEST_CASE("the plan of staging takes the first local disk with room") {
    RunOptions options;
    options.command = {"train"};
    options.stage = "auto";
    options.overlay = "tmpfs=2g";
    options.data = {{"/lustre/set.sqfs:/data", "--data, argument 1"}};
    HostFacts facts = node();
    facts.files["/lustre/digits.sqfs"] = {"1:2:3:4", 2 * kGiga, true, "Lustre"};
    facts.stage_places = {
        {"/lustre/tmp", "$TMPDIR", "lies on Lustre, which other nodes share", 0, {}},
        {"/local", "a usual place", "", 4 * kGiga, {}},
        {"/tmp", "a usual place", "", 8 * kGiga, {}},
        {"/dev/shm", "a usual place", "", 80 * kGiga, {}}};
    const RunPlan plan = plan_run(spec_of(options), facts, squashfs());
    check_golden("stage", plan);

    // What is there needs no room.
    const std::string name = plan.stages[0].target.substr(plan.stages[0].target.rfind('/') + 1);
    facts.stage_places[1].staged = {name};
    CHECK(plan_run(spec_of(options), facts, squashfs()).stages[0].target ==
          "/local/slipway-stage-4711/" + name);

    facts.stage_places.resize(2);
    facts.stage_places[1].staged.clear();
    const std::string message = error_of(spec_of(options), facts, squashfs());
    CHECK_THAT(message,
               ContainsSubstring("\"/local\" (a usual place) has 4.0 GB free, 5.0 GB are"));
    CHECK_THAT(message, ContainsSubstring("lies on Lustre"));
}

TEST_CASE("staging leaves files on local disks alone, unless it is told where to") {
    RunOptions options;
    options.command = {"train"};
    options.stage = "auto";
    HostFacts facts = node();
    facts.files["/lustre/digits.sqfs"] = {"1:2:3:4", kGiga, true, ""};
    CHECK(plan_run(spec_of(options), facts, squashfs()).stages.empty());
    options.stage = "/fast";
    facts.stage_places = {{"/fast", "--stage", "", 4 * kGiga, {}}};
    CHECK(plan_run(spec_of(options), facts, squashfs()).stages.size() == 1);
    image::RunnableImage directory;
    directory.path = "/lustre/rootfs";
    const RunPlan plan = plan_run(spec_of(options), facts, directory);
    CHECK(plan.stages.empty());
    CHECK_THAT(plan.warnings.at(0), ContainsSubstring("\"/lustre/rootfs\" is not staged"));
}

TEST_CASE("the host as image takes packs and a private /tmp, but no overlay") {
    RunOptions options;
    options.command = {"ls"};
    options.private_tmp = true;
    options.data = {{"/lustre/set.sqfs:/mnt", "--data, argument 1"}};
    check_golden("host-data", plan_run(spec_of(options), node(), host()));
    options.overlay = "tmpfs";
    CHECK_THAT(error_of(spec_of(options), node(), host()), ContainsSubstring("not the host"));
}

TEST_CASE("missing packs and homes name their origin") {
    RunOptions options;
    options.command = {"ls"};
    options.data = {{"/lustre/gone.sqfs:/data", "--data, argument 1"}};
    CHECK_THAT(error_of(spec_of(options), node(), squashfs()),
               ContainsSubstring("requested by: --data, argument 1"));
    HostFacts facts = node();
    facts.files["/lustre/gone.sqfs"] = {"1:8:9:9", 0, false, ""};
    CHECK_THAT(error_of(spec_of(options), facts, squashfs()), ContainsSubstring("--bind"));
    options.data.clear();
    options.home = true;
    facts.present.erase("/home/mara");
    CHECK_THAT(error_of(spec_of(options), facts, squashfs()),
               ContainsSubstring("requested by: --home"));
}

TEST_CASE("a changed pack is another session") {
    RunOptions options;
    options.command = {"ls"};
    options.data = {{"/lustre/set.sqfs:/data", "--data, argument 1"}};
    HostFacts facts = node();
    const std::string key = plan_run(spec_of(options), facts, squashfs()).session_key;
    facts.files["/lustre/set.sqfs"].identity = "1:7:9:10";
    CHECK(plan_run(spec_of(options), facts, squashfs()).session_key != key);
}
