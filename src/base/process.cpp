// Child processes: fork with an error pipe, spawn helpers, wait, kill and reap.
// Must not: leave a child behind.
#include "slipway/base/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway {

std::string ExitStatus::describe() const {
    if (signal == 0) return fmt::format("exit status {}", code);
    const char* name = sigabbrev_np(signal);
    return fmt::format("killed by signal {} (SIG{})", signal, name != nullptr ? name : "?");
}

ExitStatus ExitStatus::from_wait_status(int wait_status) {
    ExitStatus status;
    if (WIFSIGNALED(wait_status))
        status.signal = WTERMSIG(wait_status);
    else
        status.code = WEXITSTATUS(wait_status);
    return status;
}

ChildProcess::ChildProcess(pid_t pid) : pid_(pid), pidfd_(sys::pidfd_open(pid)) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
    std::swap(pid_, other.pid_);
    std::swap(pidfd_, other.pidfd_);
    return *this;
}

ChildProcess::~ChildProcess() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);  // not yet reaped, so the number is still its own
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

void ChildProcess::kill(int signal) {
    if (pid_ > 0) sys::pidfd_send_signal(pidfd_.get(), signal);
}

ExitStatus ChildProcess::wait() {
    int wait_status = 0;
    while (::waitpid(pid_, &wait_status, 0) < 0)
        if (errno != EINTR)
            throw SysError(fmt::format("cannot wait for process {}", pid_), "waitpid");
    pid_ = -1;
    return ExitStatus::from_wait_status(wait_status);
}

namespace {

/// A caller that ignores SIGCHLD would have the kernel reap our children before we ask how they
/// ended (waitpid(2), NOTES); that disposition outlives execve.
void keep_children() {
    struct sigaction action {};
    if (::sigaction(SIGCHLD, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
        ::signal(SIGCHLD, SIG_DFL);
}

}  // namespace

ForkedChild fork_child(const std::function<int()>& body) {
    keep_children();
    auto [reader, writer] = sys::pipe();
    const pid_t pid = ::fork();
    if (pid < 0) throw SysError("cannot start a process", "fork");
    if (pid == 0) {
        reader.reset();
        int status = kExitOwnFailure;
        std::string report;
        try {
            status = body();
        } catch (const Error& error) {
            report = error.serialize();
        } catch (const std::exception& error) {
            report = Error(ErrorKind::internal, error.what()).serialize();
        }
        for (size_t done = 0; done < report.size();) {
            const ssize_t n = ::write(writer.get(), report.data() + done, report.size() - done);
            if (n <= 0) break;
            done += static_cast<size_t>(n);
        }
        ::_exit(status);
    }
    return {ChildProcess(pid), std::move(reader)};
}

std::vector<char*> exec_pointers(const std::vector<std::string>& strings) {
    std::vector<char*> list;
    for (const auto& text : strings) list.push_back(const_cast<char*>(text.c_str()));
    list.push_back(nullptr);
    return list;
}

ExitStatus wait_forked(ForkedChild& child) {
    const std::string report = read_all(child.error_pipe.get(), "error pipe");
    const ExitStatus status = child.process.wait();
    if (!report.empty()) throw parse_error(report);
    return status;
}

namespace {

/// Feed `input` and collect both outputs at once, so that no pipe can fill up and block the other.
void exchange(UniqueFd in, UniqueFd out, UniqueFd err, const std::string& input,
              CommandResult& result) {
    size_t written = 0;
    char buffer[64 << 10];
    const auto drain = [&](UniqueFd& fd, std::string& into) {
        const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
        if (n > 0)
            into.append(buffer, static_cast<size_t>(n));
        else if (n == 0 || errno != EINTR)
            fd.reset();
    };
    if (input.empty()) in.reset();
    // A write larger than the pipe must not block while the command waits for its output to be
    // read.
    if (in && ::fcntl(in.get(), F_SETFL, O_NONBLOCK) != 0)
        throw SysError("cannot prepare a pipe", "fcntl");
    while (in || out || err) {
        pollfd waits[3] = {{in.get(), POLLOUT, 0}, {out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}};
        if (::poll(waits, 3, -1) < 0 && errno != EINTR)
            throw SysError("cannot wait for a command", "poll");
        if (waits[0].revents != 0) {
            const ssize_t n = ::write(in.get(), input.data() + written, input.size() - written);
            if (n > 0) written += static_cast<size_t>(n);
            if ((n < 0 && errno != EINTR && errno != EAGAIN) || written == input.size()) in.reset();
        }
        if (waits[1].revents != 0) drain(out, result.output);
        if (waits[2].revents != 0) drain(err, result.errors);
    }
}

}  // namespace

CommandResult run_command(const CommandOptions& options) {
    const char* path_list = std::getenv("PATH");
    const auto program =
        find_program(options.argv.at(0), path_list != nullptr ? path_list : "/usr/bin:/bin");
    if (!program)
        throw Error(ErrorKind::not_found,
                    fmt::format("the program {} is not installed", quoted(options.argv[0])))
            .note(fmt::format("looked for in PATH={}", path_list != nullptr ? path_list : ""));
    auto [in_read, in_write] = sys::pipe();
    auto [out_read, out_write] = sys::pipe();
    auto [err_read, err_write] = sys::pipe();
    const std::vector<char*> argv = exec_pointers(options.argv);
    const std::vector<char*> env = exec_pointers(options.env.value_or(std::vector<std::string>{}));
    const int in = in_read.get();
    const int out = options.capture_output ? out_write.get() : STDERR_FILENO;
    const int err = options.capture_errors ? err_write.get() : STDERR_FILENO;

    ForkedChild child = fork_child([&]() -> int {
        if (!options.working_directory.empty()) sys::chdir(options.working_directory);
        if (::dup2(in, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 ||
            ::dup2(err, STDERR_FILENO) < 0)
            throw SysError("cannot connect a command's input and output", "dup2");
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) sys::set_cloexec(fd, false);
        ::execve(program->c_str(), argv.data(), options.env ? env.data() : environ);
        throw SysError(fmt::format("cannot run {}", quoted(*program)), "execve");
    });
    in_read.reset();
    out_write.reset();
    err_write.reset();
    CommandResult result;
    struct sigaction ignore {
    }, before{};
    ignore.sa_handler =
        SIG_IGN;  // a command that ends without reading its input is no error of ours
    ::sigaction(SIGPIPE, &ignore, &before);
    exchange(std::move(in_write), std::move(out_read), std::move(err_read), options.input, result);
    ::sigaction(SIGPIPE, &before, nullptr);
    result.status = wait_forked(child);
    return result;
}

}  // namespace slipway
