// Runs one command of a build as emulated root in a writable stack of layers.
// Must not: know Dockerfiles, or keep anything of the step but its exit status and its upper layer.
#include "slipway/runtime/step.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "exec_command.hpp"
#include "namespaces.hpp"
#include "overlay.hpp"
#include "root_filter.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"
#include "step_root.hpp"

// Three processes: the keeper has the namespaces made and dies with us; the init, pid 1 of the
// step's pid namespace, mounts, reaps, and takes everything along when it ends; the command.

namespace slipway::runtime {

namespace {

/// Die with `parent`, also when it is gone already.
void die_with(const UniqueFd& parent) {
    sys::set_parent_death_signal(SIGKILL);
    pollfd gone{parent.get(), POLLIN, 0};
    if (::poll(&gone, 1, 0) != 0) ::_exit(kExitOwnFailure);
}

void bring_loopback_up() {
    const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::string("lo").copy(request.ifr_name, IFNAMSIZ - 1);
    if (!socket || ::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return;
    request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
    ::ioctl(socket.get(), SIOCSIFFLAGS, &request);
}

UniqueFd open_input(const std::string& input) {
    if (input.empty()) return sys::open("/dev/null", O_RDONLY);
    UniqueFd file = sys::memfd_create("step-input");
    sys::pwrite_all(file.get(), input.data(), input.size(), 0, "the step's input");
    return file;
}

[[noreturn]] void become_command(const StepRequest& request, const StepRoot& root,
                                 const UniqueFd& input) {
    if (::dup2(input.get(), STDIN_FILENO) < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        throw SysError("cannot connect the step's input and output", "dup2");
    sys::set_cloexec(STDERR_FILENO, false);  // it may be the /dev/null that stands for a closed one
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    try {
        sys::chdir(request.working_directory);
    } catch (Error& error) {
        throw error.note("requested by: the working directory of the step");
    }
    auto environment = request.environment;
    for (const auto& entry : root.environment()) environment.push_back(entry);
    install_root_filter();
    exec_command(request.argv, environment);
}

/// Wait for the command, reaping whatever else comes to us as pid 1.
ExitStatus wait_as_init(ForkedChild& command) {
    const std::string report = read_all(command.error_pipe.get(), "error pipe");
    while (true) {
        siginfo_t info{};
        if (::waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) != 0) {
            if (errno == EINTR) continue;
            throw SysError("cannot wait for the step", "waitid");
        }
        if (info.si_pid == command.process.pid()) break;
        ::waitpid(info.si_pid, nullptr, 0);
    }
    const ExitStatus status = command.process.wait();
    if (!report.empty()) throw parse_error(report);
    return status;
}

void end_all_others() {
    ::kill(-1, SIGKILL);  // as pid 1: everything in our pid namespace
    while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) continue;
}

int run_init(const StepRequest& request, const UniqueFd& keeper, const UniqueFd& input,
             const UniqueFd& result) {
    die_with(keeper);
    if (!request.network) bring_loopback_up();
    isolate_mounts();
    ::umask(022);  // as every builder: the layer must not depend on the caller's
    StepRoot root(request);
    ForkedChild command = fork_child([&]() -> int { become_command(request, root, input); });
    const auto close = [&root] {
        end_all_others();
        root.tidy();
    };
    ExitStatus status;
    try {
        status = wait_as_init(command);
    } catch (const Error&) {  // the command could not be started
        close();
        throw;
    }
    close();
    sys::write_all(result.get(), &status, sizeof status, "the step's result");
    return 0;
}

int run_keeper(const StepRequest& request, const UniqueFd& caller, const UniqueFd& input,
               const UniqueFd& result) {
    const Identity identity{request.uid, request.gid, ::geteuid(), ::getegid()};
    enter_user_namespace(CLONE_NEWNS | CLONE_NEWPID | (request.network ? 0 : CLONE_NEWNET),
                         identity);
    die_with(caller);
    const UniqueFd self = sys::pidfd_open(::getpid());
    ForkedChild init = fork_child([&] { return run_init(request, self, input, result); });
    return wait_forked(init).shell_code();
}

/// Leaves the overlay's work directory usable for the next step, whatever happens in between.
class CleanWork {
 public:
    explicit CleanWork(const std::string& work) : work_(work) {
        if (!work_.empty()) clear_overlay_work(work_);
    }
    ~CleanWork() {
        try {
            if (!work_.empty()) clear_overlay_work(work_);
        } catch (const Error& error) {
            log::warning("{}", error.message());
        }
    }
    CleanWork(const CleanWork&) = delete;
    CleanWork& operator=(const CleanWork&) = delete;

 private:
    std::string work_;
};

}  // namespace

ExitStatus run_step(const StepRequest& request) {
    if (request.argv.empty() || (request.layers.empty() && request.root.empty()))
        throw Error(ErrorKind::internal, "a step needs a command, and layers or a root");
    const CleanWork clean(request.work);
    const UniqueFd self = sys::pidfd_open(::getpid());
    const UniqueFd input = open_input(request.input);
    auto [result_reader, result_writer] = sys::pipe();
    ForkedChild keeper = fork_child(
        [&, &writer = result_writer] { return run_keeper(request, self, input, writer); });
    result_writer.reset();
    ExitStatus status = wait_forked(keeper);
    ExitStatus of_command;
    if (sys::read(result_reader.get(), &of_command, sizeof of_command, "the step's result") ==
        sizeof of_command)
        status = of_command;
    else if (status.success())
        throw Error(ErrorKind::internal, "the step ended without a result");
    return status;
}

void require_step_support(const std::string& store) {
    const TempDir place(store, "probe-");
    for (const char* name : {"lower", "upper", "work"})
        sys::make_directories(join_path(place.path(), name));
    const OverlayLayers layers{{join_path(place.path(), "lower")},
                               join_path(place.path(), "upper"),
                               join_path(place.path(), "work")};
    ForkedChild probe = fork_child([&]() -> int {
        enter_user_namespace(CLONE_NEWNS, {0, 0, ::geteuid(), ::getegid()});
        isolate_mounts();
        mount_overlay(layers, layers.upper);
        sys::mkdirat(AT_FDCWD, join_path(layers.upper, "try"), 0755);
        return 0;
    });
    if (const ExitStatus status = wait_forked(probe); !status.success())
        throw Error(ErrorKind::host_forbids,
                    fmt::format("the test of RUN's namespaces ended with {}", status.describe()));
}

}  // namespace slipway::runtime
