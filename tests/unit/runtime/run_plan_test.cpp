// Golden plans: made-up hosts and images in, JSON out, compared with tests/plan/*.json.
// SLIPWAY_UPDATE_GOLDEN=1 writes the files anew: look at the difference before committing it.
#include "run_plan.hpp"

#include <cstdlib>

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

HostFacts cluster_node() {
    HostFacts facts;
    facts.uid = 4711;
    facts.gid = 100;
    facts.user_name = "mara";
    facts.group_name = "users";
    facts.home = "/home/mara";
    facts.environment = {{"HOME", "/home/mara"},        {"PATH", "/usr/bin:/opt/slurm/bin"},
                         {"LD_LIBRARY_PATH", "/opt/x"}, {"SLURM_PROCID", "3"},
                         {"TMPDIR", "/tmp/job7"},       {"LANG", "C.UTF-8"}};
    facts.working_directory = "/home/mara/run";
    facts.present = {"/dev",       "/proc",        "/sys",      "/tmp", "/etc/resolv.conf",
                     "/etc/hosts", "/lustre/data", "/home/mara"};
    facts.namespaces = "mnt:[1] user:[2]";
    facts.launcher = {"slurm", "7.0"};
    return facts;
}

image::RunnableImage squashfs_image() {
    image::RunnableImage image;
    image.kind = image::RunnableImage::Kind::squashfs;
    image.path = "/home/mara/digits.sqfs";
    image.identity = "1:2:3:4";
    image.config.env = {"PATH=/opt/digits/bin:/usr/bin", "LANG=C"};
    image.config.entrypoint = {"/opt/digits/bin/start"};
    image.config.cmd = {"--help"};
    image.config.working_dir = "/opt/digits";
    return image;
}

image::RunnableImage directory_image() {
    image::RunnableImage image;
    image.path = "/home/mara/rootfs";
    image.identity = "1:9:3:4";
    return image;
}

void check_golden(const std::string& name, const RunPlan& plan) {
    const std::string path = std::string(SLIPWAY_SOURCE_DIR) + "/tests/plan/" + name + ".json";
    const std::string text = to_text(to_json(plan), 2) + "\n";
    if (std::getenv("SLIPWAY_UPDATE_GOLDEN") != nullptr) write_file_atomic(path, text);
    CHECK(text == read_file(path));
}

RunSpec spec_of(std::vector<std::string> command) {
    RunSpec spec;
    spec.command = std::move(command);
    return spec;
}

}  // namespace

TEST_CASE("the plan of a squashfs image under Slurm") {
    check_golden("squashfs-slurm", plan_run(RunSpec{}, cluster_node(), squashfs_image()));
}

TEST_CASE("the plan of a directory with binds, settings and --write") {
    RunSpec spec = spec_of({"train", "--fast"});
    spec.mounts.binds = {{"/lustre/data", "/data", true, false, "--bind, argument 1"},
                         {"/home/mara", "/home/mara", false, false, "--bind, argument 2"},
                         {"/not/there", "/x", false, true, "--bind, argument 3"}};
    spec.env.settings = {{"OMP_NUM_THREADS", "4", "--set-env, argument 1"}};
    spec.directory = "/data";
    spec.mounts.write = true;
    spec.share_session = false;
    check_golden("directory-write", plan_run(spec, cluster_node(), directory_image()));
}

TEST_CASE("the plan for a user and a group without names, on a bare host") {
    HostFacts facts = cluster_node();
    facts.user_name.clear();
    facts.group_name.clear();
    facts.present = {"/dev", "/proc", "/sys"};
    facts.environment.clear();
    check_golden("nameless-user", plan_run(spec_of({"id"}), facts, directory_image()));
}

TEST_CASE("the plan for the host itself") {
    image::RunnableImage host;
    host.kind = image::RunnableImage::Kind::host;
    host.path = "/";
    check_golden("host", plan_run(spec_of({"hostname"}), cluster_node(), host));
    RunSpec spec = spec_of({"ls", "/mnt"});
    spec.mounts.binds = {{"/lustre/data", "/mnt", false, false, "--bind, argument 1"}};
    check_golden("host-bind", plan_run(spec, cluster_node(), host));
}

TEST_CASE("a command replaces CMD, and --entrypoint both; without any of them there is an error") {
    CHECK(plan_run(RunSpec{}, cluster_node(), squashfs_image()).argv ==
          std::vector<std::string>{"/opt/digits/bin/start", "--help"});
    CHECK(plan_run(spec_of({"ls"}), cluster_node(), squashfs_image()).argv ==
          std::vector<std::string>{"/opt/digits/bin/start", "ls"});
    RunSpec front = spec_of({"ls"});
    front.replace_entrypoint = true;
    CHECK(plan_run(front, cluster_node(), squashfs_image()).argv == std::vector<std::string>{"ls"});
    front.command.clear();
    CHECK(plan_run(front, cluster_node(), squashfs_image()).argv.size() == 2);
    RunSpec own = spec_of({"ls"});
    own.entrypoint = std::vector<std::string>{};
    CHECK(plan_run(own, cluster_node(), squashfs_image()).argv == std::vector<std::string>{"ls"});
    own.command.clear();
    CHECK_THROWS_AS(plan_run(own, cluster_node(), squashfs_image()), Error);
    CHECK_THROWS_AS(plan_run(RunSpec{}, cluster_node(), directory_image()), Error);
}

TEST_CASE("a squashfs file and --write exclude each other") {
    RunSpec spec = spec_of({"ls"});
    spec.mounts.write = true;
    try {
        plan_run(spec, cluster_node(), squashfs_image());
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::unsupported);
        CHECK_THAT(error.render(), ContainsSubstring("slipway convert"));
    }
}

TEST_CASE("a missing source names its origin and a remedy") {
    RunSpec spec = spec_of({"ls"});
    spec.mounts.binds = {{"/not/there", "/x", false, false, "--bind, argument 2"}};
    try {
        plan_run(spec, cluster_node(), directory_image());
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.exit_status() == 125);
        CHECK_THAT(error.render(), ContainsSubstring("cannot bind \"/not/there\""));
        CHECK_THAT(error.render(), ContainsSubstring("requested by: --bind, argument 2"));
        CHECK_THAT(error.render(), ContainsSubstring("try:"));
    }
}

TEST_CASE("a session is one user, image, set of mounts and job step") {
    const HostFacts facts = cluster_node();
    const auto key = [&](const RunSpec& spec, const HostFacts& host,
                         const image::RunnableImage& image) {
        return plan_run(spec, host, image).session_key;
    };
    const std::string base = key(RunSpec{}, facts, squashfs_image());
    CHECK(base.size() == 32);
    CHECK(key(spec_of({"another", "command"}), facts, squashfs_image()) == base);
    HostFacts rank = facts;
    rank.environment["SLURM_PROCID"] = "4";
    CHECK(key(RunSpec{}, rank, squashfs_image()) == base);

    HostFacts step = facts;
    step.launcher.job = "7.1";
    CHECK(key(RunSpec{}, step, squashfs_image()) != base);
    HostFacts user = facts;
    user.uid = 4712;
    CHECK(key(RunSpec{}, user, squashfs_image()) != base);
    HostFacts nested = facts;
    nested.namespaces = "mnt:[9] user:[9]";
    CHECK(key(RunSpec{}, nested, squashfs_image()) != base);
    auto changed = squashfs_image();
    changed.identity = "1:2:3:5";
    CHECK(key(RunSpec{}, facts, changed) != base);
    RunSpec bound;
    bound.mounts.binds = {{"/lustre/data", "/data", false, false, "x"}};
    CHECK(key(bound, facts, squashfs_image()) != base);
    RunSpec named;
    named.session_name = "mine";
    CHECK(key(named, step, squashfs_image()) == key(named, facts, squashfs_image()));
    RunSpec none;
    none.share_session = false;
    CHECK(key(none, facts, squashfs_image()).empty());
}
