// run_step on the kernel, with the host's own programs below an empty layer of ours.
// Must not: need a network or a base image.
#include "slipway/runtime/step.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <map>

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

/// Layers: one with links that merged-/usr systems have, and the host's /usr bound into it.
struct Fixture {
    TempDir place{temporary_directory()};
    StepRequest request;

    Fixture() {
        const std::string base = place.path() + "/base", second = place.path() + "/a:b,c\\d";
        for (const char* name : {"/usr", "/tmp", "/etc"}) sys::make_directories(base + name);
        for (const char* name : {"bin", "sbin", "lib", "lib64"})
            if (::access((std::string("/") + name).c_str(), F_OK) == 0)
                sys::symlinkat(std::string("usr/") + name, AT_FDCWD, base + "/" + name);
        write_file_atomic(base + "/etc/below", "one");
        sys::make_directories(second + "/etc");
        write_file_atomic(second + "/etc/below", "two");
        write_file_atomic(second + "/etc/above", "three");
        request.layers = {base, second};
        request.upper = place.path() + "/upper";
        request.work = place.path() + "/work";
        sys::make_directories(request.upper);
        sys::make_directories(request.work);
        request.binds = {{"/usr", "/usr", true}};
        request.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
    }

    ExitStatus run(const std::string& script) {
        request.argv = {"/bin/sh", "-c", script};
        return run_step(request);
    }
    std::vector<std::string> upper_names() const {
        return sys::list_directory(sys::open(request.upper, O_RDONLY).get(), "upper");
    }
};

}  // namespace

TEST_CASE("a step sees its layers, newest on top, and writes to upper only", "[userns]") {
    Fixture step;
    CHECK(step.run("[ \"$(cat /etc/below)\" = two ] && [ \"$(cat /etc/above)\" = three ] && "
                   "echo new > /etc/made && rm /etc/above")
              .code == 0);
    CHECK(read_file(step.request.upper + "/etc/made") == "new\n");
    CHECK(read_file(step.request.layers[1] + "/etc/above") == "three");
    // neither /dev, /proc, /sys nor resolv.conf or hosts are left as empty mount points
    CHECK(step.upper_names() == std::vector<std::string>{"etc"});
    CHECK(::access((step.request.upper + "/etc/resolv.conf").c_str(), F_OK) != 0);
    CHECK(sys::list_directory(sys::open(step.request.work, O_RDONLY).get(), "work").empty());
}

TEST_CASE("exit status and signals of a step", "[userns]") {
    Fixture step;
    CHECK(step.run("exit 7").code == 7);
    CHECK(step.run("kill -TERM $$").signal == SIGTERM);
}

TEST_CASE("a step is root, and calls of root succeed", "[userns]") {
    Fixture step;
    CHECK(step.run("set -e; [ $(id -u) = 0 ]; touch /f; chown 33:33 /f; chgrp 5 /f; "
                   "mknod /tmp/null c 1 3; mkfifo /tmp/pipe; "
                   "[ -c /dev/null ]; echo > /dev/null; [ -e /proc/self/status ]; "
                   "[ -d /dev/pts ]; [ -d /sys/kernel ]; echo > /dev/shm/x")
              .code == 0);
}

TEST_CASE("another user in a step", "[userns]") {
    Fixture step;
    step.request.uid = 1000;
    step.request.gid = 50;
    CHECK(step.run("[ $(id -u) = 1000 ] && [ $(id -g) = 50 ] && touch /tmp/mine").code == 0);
}

TEST_CASE("input, working directory and environment of a step", "[userns]") {
    Fixture step;
    step.request.input = "from outside\n";
    step.request.working_directory = "/etc";
    step.request.environment.push_back("GREETING=hello");
    CHECK(step.run("read line; [ \"$line\" = 'from outside' ] && [ $(pwd) = /etc ] && "
                   "[ $GREETING = hello ] && [ -z \"$HOME\" ]")
              .code == 0);
    step.request.working_directory = "/nowhere";
    CHECK_THROWS_AS(step.run("true"), Error);
}

TEST_CASE("nothing that a step started outlives it", "[userns]") {
    Fixture step;
    const std::string mark = std::to_string(3'600 + ::getpid());
    CHECK(step.run("sleep " + mark + " & (setsid sleep " + mark + " &) ; exit 0").code == 0);
    for (const auto& pid :
         sys::list_directory(sys::open("/proc", O_RDONLY | O_DIRECTORY).get(), "/proc")) {
        if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
        std::string line;
        try {
            line = read_file("/proc/" + pid + "/cmdline");
        } catch (const Error&) {
            continue;
        }
        CHECK(line.find("sleep" + std::string(1, '\0') + mark) == std::string::npos);
    }
}

TEST_CASE("a step without a network has a loopback only", "[userns]") {
    Fixture step;
    step.request.network = false;
    CHECK(step.run("[ $(grep -c : /proc/net/dev) = 1 ] && grep -q lo: /proc/net/dev").code == 0);
}

TEST_CASE("a missing command of a step", "[userns]") {
    Fixture step;
    step.request.argv = {"no-such-command"};
    try {
        run_step(step.request);
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.exit_status() == 127);
        CHECK_THAT(error.render(), ContainsSubstring("PATH searched: /usr/sbin"));
    }
    for (const auto& name : step.upper_names())  // at most /etc itself, copied up
        CHECK(sys::list_directory(sys::open(step.request.upper + "/" + name, O_RDONLY).get(), name)
                  .empty());
}

TEST_CASE("a plain directory changed in place, and the host's own root", "[userns]") {
    Fixture step;
    StepRequest request;
    request.root = step.request.layers[0];
    request.binds = step.request.binds;
    request.environment = step.request.environment;
    request.argv = {"/bin/sh", "-c", "echo changed > /etc/below && mkdir /tmp/new"};
    CHECK(run_step(request).code == 0);
    CHECK(read_file(request.root + "/etc/below") == "changed\n");
    CHECK(::access((request.root + "/dev").c_str(), F_OK) != 0);

    request.root = "/";
    request.binds.clear();
    const std::string file = step.place.path() + "/written";
    request.argv = {"/bin/sh", "-c", "[ $(id -u) = 0 ] && echo > " + file + " && chown 1 " + file};
    CHECK(run_step(request).code == 0);
    CHECK(::access(file.c_str(), F_OK) == 0);
}

TEST_CASE("many layers fit", "[userns]") {
    Fixture step;
    for (int i = 0; i < 120; ++i) {
        const std::string layer =
            step.place.path() + "/" + std::string(60, 'l') + std::to_string(i);
        sys::make_directories(layer + "/many");
        write_file_atomic(layer + "/many/" + std::to_string(i), "x");
        step.request.layers.push_back(layer);
    }
    CHECK(step.run("[ $(ls /many | wc -l) = 120 ]").code == 0);
}

TEST_CASE("support for steps is tested by trying", "[userns]") {
    const TempDir place(temporary_directory());
    CHECK_NOTHROW(require_step_support(place.path()));
    CHECK(sys::list_directory(sys::open(place.path(), O_RDONLY).get(), "store").empty());
}
