// Tries what ranks of a node do with each other, and looks for launcher and devices.
// Must not: open a device; a GPU's driver may take seconds to wake up.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "doctor_checks.hpp"
#include "launcher.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime::doctor {

namespace {

using Level = Finding::Level;

constexpr uint64_t kEnoughSharedMemory = 256u << 20;

Finding check_pidfd() {
    const Trial trial = try_in_child([] {
        const UniqueFd self = sys::pidfd_open(::getpid());
        return std::string("can be opened");
    });
    if (trial.ok()) return good("process descriptors", trial.text);
    return failed(Level::problem, "process descriptors", *trial.error,
                  "sessions cannot watch their processes", "run on a host with Linux 5.3 or later");
}

std::string ptrace_scope() {
    try {
        std::string text = read_file("/proc/sys/kernel/yama/ptrace_scope");
        while (!text.empty() && text.back() == '\n') text.pop_back();
        return text;
    } catch (const Error&) {
        return "";
    }
}

/// One child reads a word of its brother, as one rank reads another's message.
std::string try_cross_memory() {
    auto [address_reader, address_writer] = sys::pipe();
    auto [end_reader, end_writer] = sys::pipe();
    ForkedChild owner =
        fork_child([&, &address = address_writer, &end = end_reader, &our_end = end_writer] {
            our_end.reset();
            static volatile long word = 4711;
            const volatile long* at = &word;
            sys::write_all(address.get(), &at, sizeof at, "an address");
            char byte = 0;
            sys::read(end.get(), &byte, 1, "the end");
            return 0;
        });
    long* at = nullptr;
    sys::read(address_reader.get(), &at, sizeof at, "an address");
    const pid_t pid = owner.process.pid();
    ForkedChild reader = fork_child([&, &our_end = end_writer] {
        our_end.reset();
        long word = 0;
        iovec local{&word, sizeof word}, remote{at, sizeof word};
        if (::process_vm_readv(pid, &local, 1, &remote, 1, 0) != sizeof word)
            throw SysError("cannot read another process's memory", "process_vm_readv");
        return word == 4711 ? 0 : 1;
    });
    const ExitStatus status = wait_forked(reader);
    end_writer.reset();
    wait_forked(owner);
    if (!status.success()) throw Error(ErrorKind::internal, "another value was read");
    return "one process reads its brother's memory";
}

Finding check_cross_memory() {
    const std::string name = "memory between ranks";
    const Trial trial = try_in_child(try_cross_memory);
    const std::string scope = ptrace_scope();
    if (trial.ok()) return good(name, trial.text);
    return failed(Level::warning, name, *trial.error,
                  "MPI copies large messages within a node twice (no CMA)",
                  scope.empty() || scope == "0"
                      ? ""
                      : "ask the administrator for: sysctl kernel.yama.ptrace_scope=0");
}

Finding check_shared_memory() {
    const std::string name = "/dev/shm";
    struct statvfs space {};
    if (::statvfs("/dev/shm", &space) != 0)
        return failed(Level::warning, name, SysError("there is no \"/dev/shm\"", "statvfs"),
                      "MPI, NCCL and PyTorch's data loaders fail without it",
                      "ask the administrator for: mount -t tmpfs tmpfs /dev/shm");
    const uint64_t total = uint64_t{space.f_blocks} * space.f_frsize;
    const uint64_t free = uint64_t{space.f_bavail} * space.f_frsize;
    const Trial trial = try_in_child([] {
        const UniqueFd file = sys::open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
        sys::pwrite_all(file.get(), "x", 1, 0, "/dev/shm");
        return std::string();
    });
    if (!trial.ok())
        return failed(Level::warning, name, *trial.error,
                      "MPI, NCCL and PyTorch's data loaders fail without it");
    Finding finding =
        good(name, fmt::format("{} of {} free", human_bytes(free), human_bytes(total)));
    if (free >= kEnoughSharedMemory) return finding;
    finding.level = Level::warning;
    finding.meaning = "MPI, NCCL and PyTorch's data loaders run out of it";
    finding.remedy =
        total < kEnoughSharedMemory
            ? "ask the administrator for: mount -o remount,size=50% /dev/shm (in a container: "
              "--shm-size)"
            : "remove what is left over in /dev/shm";
    return finding;
}

Finding check_launcher() {
    const Launcher launcher = find_launcher(read_environment(), ::getppid(), read_process);
    if (launcher.name != "parent")
        return good("launcher", fmt::format("{}, step {}: its ranks on this node share a session",
                                            launcher.name, launcher.job));
    const auto parent = read_process(::getppid());
    return good("launcher",
                fmt::format("none of a job's: commands of the same parent process, {} ({}), "
                            "share a session",
                            ::getppid(), parent ? parent->name : "hidden"));
}

struct DeviceRow {
    const char* directory;
    const char* prefix;
    const char* name;
};

constexpr DeviceRow kDevices[] = {
    {"/dev", "nvidia", "NVIDIA GPUs"},
    {"/dev", "kfd", "AMD GPUs"},
    {"/dev/dri", "renderD", "render nodes"},
    {"/dev/infiniband", "uverbs", "InfiniBand or RoCE"},
    {"/dev", "cxi", "Slingshot"},
};

/// Nodes only: whether the driver behind one works is another question.
Finding check_devices() {
    Finding finding = good("devices", "");
    for (const auto& row : kDevices) {
        DIR* directory = ::opendir(row.directory);
        if (directory == nullptr) continue;
        int usable = 0, closed = 0;
        while (const dirent* entry = ::readdir(directory)) {
            if (!std::string_view(entry->d_name).starts_with(row.prefix)) continue;
            const std::string path = fmt::format("{}/{}", row.directory, entry->d_name);
            if (entry->d_type == DT_DIR) continue;
            ++(::access(path.c_str(), R_OK | W_OK) == 0 ? usable : closed);
        }
        ::closedir(directory);
        if (usable + closed == 0) continue;
        finding.found += fmt::format("{}{}: {} nodes", finding.found.empty() ? "" : ", ", row.name,
                                     usable + closed);
        if (closed == 0) continue;
        finding.level = Level::warning;
        finding.found += fmt::format(" ({} closed to you)", closed);
        finding.meaning = "programs in images cannot use what you may not open";
        finding.remedy =
            "ask for these devices in the job (for example --gpus), or the administrator for the "
            "group that may open them";
    }
    if (finding.found.empty()) finding.found = "no nodes of GPUs or fast fabrics";
    return finding;
}

}  // namespace

Findings check_processes() {
    return {check_pidfd(), check_cross_memory(), check_shared_memory(), check_launcher(),
            check_devices()};
}

}  // namespace slipway::runtime::doctor
