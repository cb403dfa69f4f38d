// Tries what an image is isolated with: namespaces, mounts, FUSE, overlays, seccomp.
// Must not: conclude anything from a version number.
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <span>

#include "doctor_checks.hpp"
#include "namespaces.hpp"
#include "overlay.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/squashfs.hpp"

namespace slipway::runtime::doctor {

namespace {

using Level = Finding::Level;

constexpr const char* kGreetingName = "greeting";
constexpr const char* kGreeting = "served by slipway\n";

void enter(int more_flags = 0) {
    enter_user_namespace(more_flags, {::geteuid(), ::getegid(), ::geteuid(), ::getegid()});
}

void enter_with_mounts() {
    enter(CLONE_NEWNS);
    isolate_mounts();
}

std::string try_mount() {
    enter_with_mounts();
    sys::mount("slipway-doctor", "/", "tmpfs", MS_NOSUID | MS_NODEV);
    return "a tmpfs";
}

/// The calls that build a container's root: a detached file system, a copy of a tree, attributes.
std::string try_detached_mounts() {
    enter_with_mounts();
    const UniqueFd tree =
        sys::open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | AT_RECURSIVE | OPEN_TREE_CLOEXEC);
    sys::mount_setattr_recursive(tree.get(), MOUNT_ATTR_RDONLY, 0, "/");
    const UniqueFd made = sys::make_mount("tmpfs", {}, MOUNT_ATTR_NODEV);
    const UniqueFd root = sys::open("/", O_PATH | O_DIRECTORY);
    sys::move_mount(made.get(), root.get(), "/");
    return "open_tree, mount_setattr, fsmount, move_mount";
}

std::string try_fuse_device() {
    const auto status = sys::stat_if_exists(AT_FDCWD, "/dev/fuse");
    if (!status) throw Error(ErrorKind::host_forbids, "there is no \"/dev/fuse\"");
    if (!S_ISCHR(status->st_mode) || major(status->st_rdev) != 10 || minor(status->st_rdev) != 229)
        throw Error(ErrorKind::host_forbids,
                    "\"/dev/fuse\" is not the FUSE device (character 10, 229)");
    const UniqueFd fd = sys::open("/dev/fuse", O_RDWR);
    return fmt::format("mode {:04o}, opens", status->st_mode & 07777);
}

/// Become the server of a trial's image: it reads the device once that is mounted, says nothing,
/// and dies with the trial.
[[noreturn]] void serve(const UniqueFd& fuse, UniqueFd image, const UniqueFd& start) {
    sys::set_parent_death_signal(SIGKILL);
    const int null = ::open("/dev/null", O_RDWR);
    for (int fd = 0; fd <= STDERR_FILENO; ++fd) ::dup2(null, fd);
    char mounted = 0;
    if (::read(start.get(), &mounted, 1) != 1) ::_exit(0);
    image::SquashfsServerOptions options;
    options.fuse_fd = fuse.get();
    options.show_uid = ::geteuid();
    options.show_gid = ::getegid();
    options.threads = 1;
    try {
        options.image =
            std::make_shared<image::SquashfsImage>(std::move(image), "the trial's image");
        image::serve_squashfs(options);
    } catch (const std::exception&) {  // the reader is told by the kernel
    }
    ::_exit(0);
}

/// Serve the image of `place` from a process outside of the mount namespace, as a run does. Leaves
/// us in the namespaces, with the image mounted on `place`/image and read.
void serve_small_image(const std::string& place) {
    UniqueFd image = sys::open(join_path(place, "small.sqfs"), O_RDONLY);
    enter();
    UniqueFd fuse = sys::open("/dev/fuse", O_RDWR);
    auto [start_reader, start_writer] = sys::pipe();
    const pid_t server = ::fork();
    if (server < 0) throw SysError("cannot start a server", "fork");
    if (server == 0) {
        start_writer.reset();
        serve(fuse, std::move(image), start_reader);
    }
    start_reader.reset();
    sys::unshare(CLONE_NEWNS);
    isolate_mounts();
    sys::mount("slipway-doctor", join_path(place, "image"), "fuse.slipway",
               MS_NODEV | MS_NOSUID | MS_RDONLY,
               image::fuse_mount_options(fuse.get(), ::geteuid(), ::getegid()));
    fuse.reset();  // else the server's death would be a hang, and not an error
    sys::write_all(start_writer.get(), "x", 1, "the server's start");
    if (read_file(join_path(join_path(place, "image"), kGreetingName)) != kGreeting)
        throw Error(ErrorKind::io, "the mounted image reads wrongly");
}

std::string try_fuse_mount(const std::string& place) {
    serve_small_image(place);
    return "a squashfs image, mounted and read";
}

/// Add a file to an overlay over `lower`, and take the greeting away.
void try_overlay(const std::string& lower, const std::string& base) {
    for (const char* name : {"upper", "work"})
        sys::mkdirat_if_absent(AT_FDCWD, join_path(base, name), 0700);
    const OverlayLayers layers{{lower}, join_path(base, "upper"), join_path(base, "work")};
    mount_overlay(layers, layers.upper);
    write_file_atomic(join_path(layers.upper, "changed"), "x");
    sys::unlinkat(AT_FDCWD, join_path(layers.upper, kGreetingName));
}

/// Mount a tmpfs on `place`/upper-fs and lay an overlay with it over `lower`.
void try_overlay_in_memory(const std::string& lower, const std::string& place) {
    const std::string memory = join_path(place, "memory");
    sys::mount("slipway-doctor", memory, "tmpfs", MS_NOSUID | MS_NODEV);
    try_overlay(lower, memory);
}

Finding check_overlay_on_store(const std::string& store) {
    const std::string name = "overlay on the store", near = nearest_directory(store);
    try {
        require_answer(near);
        const TempDir place(near, ".slipway-doctor-");
        const Trial trial = try_in_child([&] {
            const std::string lower = join_path(place.path(), "lower");
            sys::make_directories(lower);
            write_file_atomic(join_path(lower, kGreetingName), kGreeting);
            enter_with_mounts();
            try_overlay(lower, place.path());
            return std::string("made and written to");
        });
        if (trial.ok()) return good(name, trial.text);
        return failed(Level::warning, name, *trial.error, "builds cannot keep their layers there",
                      "choose a store on a local disk: --storage DIR or SLIPWAY_STORE");
    } catch (const Error& error) {
        return failed(Level::warning, name, error, "no image can be stored or built there",
                      "choose another store: --storage DIR or SLIPWAY_STORE");
    }
}

/// A directory for the trials with a small image in it: in $TMPDIR, else wherever there is room.
std::optional<TempDir> make_trial_place(const std::string& store) {
    for (const auto& base :
         {temporary_directory(), std::string("/dev/shm"), nearest_directory(store)}) {
        try {
            require_answer(base);
            TempDir place(base, "slipway-doctor-");
            for (const char* name : {"tree", "image", "memory"})
                sys::make_directories(join_path(place.path(), name));
            write_file_atomic(join_path(join_path(place.path(), "tree"), kGreetingName), kGreeting);
            const Trial packing = try_in_child([&] {
                image::SquashfsOptions options;
                options.threads = 1;
                const std::vector<image::LayerOpener> layers = {
                    [&] { return image::open_directory(join_path(place.path(), "tree")); }};
                image::write_squashfs(layers, {}, join_path(place.path(), "small.sqfs"), options);
                return std::string();
            });
            if (packing.ok()) return place;
        } catch (const Error&) {  // the place itself is told of by check_places()
        }
    }
    return std::nullopt;
}

long seccomp(unsigned operation, unsigned flags, void* argument) {
    return ::syscall(SYS_seccomp, operation, flags, argument);
}

/// A call of a child is answered by its parent: the value is made up, and arrives.
std::string try_seccomp_notification() {
    constexpr long kAnswer = 4711;
    auto [ours, theirs] = sys::socketpair(SOCK_SEQPACKET);
    ForkedChild child = fork_child([&, &socket = theirs] {
        sys::set_no_new_privs();
        sock_filter code[] = {
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_get_priority_max, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        sock_fprog program{sizeof code / sizeof code[0], code};
        const UniqueFd listener(static_cast<int>(
            seccomp(SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program)));
        if (!listener) throw SysError("cannot listen to a filter", "seccomp");
        const int fd = listener.get();
        sys::send_message(socket.get(), std::as_bytes(std::span("x", 1)), {&fd, 1});
        return ::syscall(SYS_sched_get_priority_max, SCHED_OTHER) == kAnswer ? 0 : 1;
    });
    theirs.reset();
    std::vector<UniqueFd> received;
    std::byte byte{};
    sys::receive_message(ours.get(), {&byte, 1}, received);
    if (!received.empty()) {
        seccomp_notif call{};
        if (::ioctl(received[0].get(), SECCOMP_IOCTL_NOTIF_RECV, &call) != 0)
            throw SysError("cannot receive a call", "ioctl");
        seccomp_notif_resp answer{call.id, kAnswer, 0, 0};
        if (::ioctl(received[0].get(), SECCOMP_IOCTL_NOTIF_SEND, &answer) != 0)
            throw SysError("cannot answer a call", "ioctl");
    }
    if (!wait_forked(child).success())
        throw Error(ErrorKind::host_forbids, "a call was not answered as it should");
    return "a call was answered";
}

Finding finding_of(const std::string& name, const Trial& trial, Level level,
                   const std::string& meaning, const std::string& remedy = {}) {
    return trial.ok() ? good(name, trial.text) : failed(level, name, *trial.error, meaning, remedy);
}

/// What needs user namespaces, when there are some.
Findings check_within(const std::string& store, bool fuse) {
    Findings findings;
    findings.push_back(
        finding_of("mounts", try_in_child(try_mount), Level::problem, "no image can be mounted"));
    findings.push_back(finding_of("detached mounts", try_in_child(try_detached_mounts),
                                  Level::problem, "no container can be put together",
                                  "run on a host with Linux 5.12 or later"));
    const auto place = make_trial_place(store);
    if (!place) {
        findings.push_back(skipped("squashfs over FUSE", "no place for a small image was found"));
        findings.push_back(skipped("overlay in memory", "no place for it was found"));
    } else {
        const std::string& path = place->path();
        Trial served;
        if (fuse) served = try_in_child([&] { return try_fuse_mount(path); });
        findings.push_back(fuse ? finding_of("squashfs over FUSE", served, Level::problem,
                                             "squashfs images do not run; directories do")
                                : skipped("squashfs over FUSE", "it needs /dev/fuse"));
        const Trial memory = try_in_child([&] {
            enter_with_mounts();
            try_overlay_in_memory(join_path(path, "tree"), path);
            return std::string("made and written to");
        });
        findings.push_back(finding_of("overlay in memory", memory, Level::warning,
                                      "--overlay and builds do not work"));
        if (!fuse || !served.ok()) {
            findings.push_back(skipped("overlay over squashfs", "it needs squashfs over FUSE"));
        } else {
            const Trial over = try_in_child([&] {
                serve_small_image(path);
                try_overlay_in_memory(join_path(path, "image"), path);
                return std::string("made and written to");
            });
            findings.push_back(finding_of("overlay over squashfs", over, Level::warning,
                                          "--overlay does not work with squashfs images"));
        }
    }
    findings.push_back(check_overlay_on_store(store));
    return findings;
}

}  // namespace

Findings check_isolation(const std::string& store) {
    Findings findings;
    const Trial user = try_in_child([] {
        enter();
        return std::string("can be made");
    });
    findings.push_back(finding_of("user namespaces", user, Level::problem, "no image runs here"));
    const Trial device = try_in_child(try_fuse_device);
    findings.push_back(finding_of(
        "/dev/fuse", device, Level::problem, "squashfs images do not run; directories do",
        "ask the administrator for: modprobe fuse; chmod 0666 /dev/fuse"));
    if (user.ok()) {
        for (auto& finding : check_within(store, device.ok()))
            findings.push_back(std::move(finding));
    } else {
        for (const char* name :
             {"mounts", "detached mounts", "squashfs over FUSE", "overlay in memory",
              "overlay over squashfs", "overlay on the store"})
            findings.push_back(skipped(name, "it needs user namespaces"));
    }
    findings.push_back(finding_of("seccomp notification", try_in_child(try_seccomp_notification),
                                  Level::warning, "builds cannot remember ownership"));
    return findings;
}

}  // namespace slipway::runtime::doctor
