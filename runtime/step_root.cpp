// Builds the root of a build step: overlay or directory, a small /dev, /proc, /sys, binds.
// Must not: start processes, or leave a trace in the layer beside what the command itself does.
#include "step_root.hpp"

#include <fmt/core.h>
#include <linux/mount.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "namespaces.hpp"
#include "overlay.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

/// What a build step's /dev has; the nodes are the host's own, bound.
constexpr const char* kDevices[] = {"null", "zero", "full", "random", "urandom", "tty"};
constexpr std::pair<const char*, const char*> kDeviceLinks[] = {{"ptmx", "pts/ptmx"},
                                                                {"fd", "/proc/self/fd"},
                                                                {"stdin", "/proc/self/fd/0"},
                                                                {"stdout", "/proc/self/fd/1"},
                                                                {"stderr", "/proc/self/fd/2"}};
/// apt steps down to a user that is not mapped, and checks that it has; told here not to, because
/// a variable and a file in our own /dev leave the image as it is.
constexpr const char* kAptConfig = "/dev/.slipway-apt.conf";
constexpr const char* kAptText = "APT::Sandbox::User \"root\";\n";

void write_text(int dir, const std::string& name, const std::string& text) {
    const UniqueFd file = sys::openat(dir, name, O_CREAT | O_EXCL | O_WRONLY, 0644);
    sys::write_all(file.get(), text.data(), text.size(), name);
}

/// The fresh /proc of our pid namespace; where the host's own /proc is partly hidden, as in most
/// containers, the kernel refuses and the host's is bound.
void mount_proc(const UniqueFd& target) {
    if (::mount("proc", fd_path(target.get()).c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
                nullptr) == 0)
        return;
    log::debug("cannot mount a fresh /proc ({}); binding the host's", errno_name(errno));
    sys::move_mount(clone_tree("/proc").get(), target.get(), "/proc");
}

}  // namespace

StepRoot::StepRoot(const StepRequest& request) {
    if (request.root == "/") {  // a host program as emulated root: the host's files as they are
        mount_proc(sys::open("/proc", O_PATH | O_DIRECTORY));
        tree_ = std::make_unique<MountTree>(sys::open("/", O_PATH | O_DIRECTORY), ".");
        for (const auto& extra : request.binds)
            bind(extra.source, extra.destination, extra.read_only, false);
        return;
    }
    if (request.root.empty())
        mount_overlay({request.layers, request.upper, request.work}, request.upper);
    else
        sys::mount(request.root, request.root, "", MS_BIND | MS_REC);
    const std::string& place = request.root.empty() ? request.upper : request.root;
    tree_ = std::make_unique<MountTree>(sys::open("/", O_PATH | O_DIRECTORY),
                                        absolute_path(place).substr(1));
    add_devices();
    add_system(request);
    tree_->enter();
}

void StepRoot::add_devices() {
    const UniqueFd below = tree_->make("/dev", MountTree::Type::directory);
    sys::mount("tmpfs", fd_path(below.get()), "tmpfs", MS_NOSUID, "mode=755,size=65536k");
    mounted_.push_back("/dev");
    const UniqueFd dev = tree_->root().open("/dev", O_RDONLY | O_DIRECTORY);
    for (const char* name : kDevices) {
        const std::string node = join_path("/dev", name);
        if (!sys::stat_if_exists(AT_FDCWD, node)) continue;
        write_text(dev.get(), name, "");
        sys::move_mount(clone_tree(node, false).get(), sys::openat(dev.get(), name, O_PATH).get(),
                        node);
    }
    for (const auto& [name, target] : kDeviceLinks) sys::symlinkat(target, dev.get(), name);
    sys::mkdirat(dev.get(), "pts", 0755);
    sys::mount("devpts", fd_path(sys::openat(dev.get(), "pts", O_PATH).get()), "devpts",
               MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620");
    sys::mkdirat(dev.get(), "shm", 01777);
    sys::mount("tmpfs", fd_path(sys::openat(dev.get(), "shm", O_PATH).get()), "tmpfs",
               MS_NOSUID | MS_NODEV, "mode=1777");
    if (tree_->find("/etc/apt")) {
        write_text(dev.get(), std::string(base_name(kAptConfig)), kAptText);
        environment_.push_back(fmt::format("APT_CONFIG={}", kAptConfig));
    }
}

void StepRoot::add_system(const StepRequest& request) {
    const UniqueFd proc = tree_->make("/proc", MountTree::Type::directory);
    mount_proc(proc);
    mounted_.push_back("/proc");
    bind("/sys", "/sys", true, false);
    if (request.network) {
        bind("/etc/resolv.conf", "/etc/resolv.conf", true, true);
        bind("/etc/hosts", "/etc/hosts", true, true);
    }
    for (const auto& extra : request.binds)
        bind(extra.source, extra.destination, extra.read_only, false);
}

void StepRoot::bind(const std::string& source, const std::string& destination, bool read_only,
                    bool only_if_there) {
    const auto status = sys::stat_if_exists(AT_FDCWD, source);
    if (!status && only_if_there) return;
    if (!status)
        throw Error(ErrorKind::not_found,
                    fmt::format("cannot bind {}: it is not there", slipway::quoted(source)));
    const UniqueFd tree = clone_tree(source);
    if (read_only) sys::mount_setattr_recursive(tree.get(), MOUNT_ATTR_RDONLY, 0, source);
    const auto type = S_ISDIR(status->st_mode) ? MountTree::Type::directory : MountTree::Type::file;
    tree_->attach(tree, tree_->make(destination, type), destination);
    mounted_.push_back(destination);
}

void StepRoot::tidy() {
    for (auto it = mounted_.rbegin(); it != mounted_.rend(); ++it)
        ::umount2(it->c_str(), MNT_DETACH);
    const auto& made = tree_->made();
    for (auto it = made.rbegin(); it != made.rend(); ++it) {
        struct stat status {};
        if (::lstat(it->path.c_str(), &status) != 0) continue;
        if (it->type == MountTree::Type::directory)
            ::rmdir(it->path.c_str());  // stays if the command put something into it
        else if (S_ISREG(status.st_mode) && status.st_size == 0)
            ::unlink(it->path.c_str());
    }
}

}  // namespace slipway::runtime
