// Mount points in hostile and in read-only roots, on the kernel.
// Must not: leave a mount: each case runs in a namespace of its own.
#include "mount_tree.hpp"

#include <linux/mount.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "catch.hpp"
#include "namespaces.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

using Type = MountTree::Type;

/// Run `body` with the directory mounted on itself in a namespace of its own; its error is ours.
void in_namespace(const std::string& root, bool read_only,
                  const std::function<void(MountTree&)>& body) {
    ForkedChild child = fork_child([&]() -> int {
        enter_user_namespace(CLONE_NEWNS, {0, 0, ::geteuid(), ::getegid()});
        isolate_mounts();
        const UniqueFd tree = clone_tree(root);
        if (read_only) sys::mount_setattr_recursive(tree.get(), MOUNT_ATTR_RDONLY, 0, root);
        sys::move_mount(tree.get(), sys::open(root, O_PATH).get(), root);
        MountTree mounts(sys::open("/", O_PATH | O_DIRECTORY), root.substr(1));
        body(mounts);
        return 0;
    });
    const bool success = wait_forked(child).success();
    CHECK(success);
}

void require(bool condition, const char* what) {
    if (!condition) throw Error(ErrorKind::internal, std::string("not so: ") + what);
}

}  // namespace

TEST_CASE("missing mount points are made and recorded", "[userns]") {
    const TempDir place(temporary_directory());
    sys::make_directories(place.path() + "/etc");
    sys::symlinkat("../run/resolve/stub.conf", AT_FDCWD, place.path() + "/etc/resolv.conf");
    in_namespace(place.path(), false, [](MountTree& tree) {
        require(!tree.find("/data/set"), "nothing is there at first");
        require(static_cast<bool>(tree.make("/data/set", Type::directory)), "a directory is made");
        require(static_cast<bool>(tree.make("/etc/resolv.conf", Type::file)),
                "a dangling link is followed");
        require(tree.made().size() == 5, "data, data/set, run, run/resolve, stub.conf");
        require(tree.made().back().path == "/run/resolve/stub.conf", "paths are as seen inside");
    });
    CHECK(::access((place.path() + "/run/resolve/stub.conf").c_str(), F_OK) == 0);
}

TEST_CASE("links of an image never lead outside of it", "[userns]") {
    const TempDir place(temporary_directory()), outside(temporary_directory());
    sys::symlinkat(outside.path(), AT_FDCWD, place.path() + "/absolute");
    sys::symlinkat("../../../../../../../.." + outside.path(), AT_FDCWD,
                   place.path() + "/climbing");
    in_namespace(place.path(), false, [](MountTree& tree) {
        tree.make("/absolute/here", Type::directory);
        tree.make("/climbing/there", Type::file);
    });
    CHECK(sys::list_directory(sys::open(outside.path(), O_RDONLY).get(), "outside").empty());
    CHECK(::access((place.path() + outside.path() + "/here").c_str(), F_OK) == 0);
    CHECK(::access((place.path() + outside.path() + "/there").c_str(), F_OK) == 0);
}

TEST_CASE("a loop of links ends", "[userns]") {
    const TempDir place(temporary_directory());
    sys::symlinkat("b", AT_FDCWD, place.path() + "/a");
    sys::symlinkat("a", AT_FDCWD, place.path() + "/b");
    CHECK_THROWS_AS(in_namespace(place.path(), false,
                                 [](MountTree& tree) { tree.make("/a/x", Type::directory); }),
                    Error);
}

TEST_CASE("a read-only root shows new mount points and all it had, and does not change",
          "[userns]") {
    const TempDir place(temporary_directory());
    sys::make_directories(place.path() + "/usr/share/words");
    sys::symlinkat("usr/share", AT_FDCWD, place.path() + "/share");
    write_file_atomic(place.path() + "/usr/file", "text");
    in_namespace(place.path(), true, [](MountTree& tree) {
        require(static_cast<bool>(tree.make("/data", Type::directory)), "in the root itself");
        require(static_cast<bool>(tree.make("/usr/a/b", Type::directory)), "two levels down");
        require(static_cast<bool>(tree.make("/share/new", Type::file)), "through a link");
        tree.seal();
        require(tree.root().read_file_if_exists("/usr/file") == "text", "files are seen");
        require(static_cast<bool>(tree.find("/share/words")), "directories and links are seen");
        for (const char* path : {"/x", "/usr/x", "/usr/share/x"}) {
            try {
                tree.root().open(path, O_CREAT | O_WRONLY, 0644);
            } catch (const SysError& error) {
                require(error.errno_value() == EROFS, "nothing can be written");
                continue;
            }
            require(false, "nothing can be written");
        }
    });
    CHECK(sys::list_directory(sys::open(place.path(), O_RDONLY).get(), "root") ==
          std::vector<std::string>{"share", "usr"});
    CHECK(sys::list_directory(sys::open(place.path() + "/usr", O_RDONLY).get(), "usr") ==
          std::vector<std::string>{"file", "share"});
}
