// Starts an instance's command, keeps its log and its record, and ends it with all that it left.
// Must not: enter the instance's container, or end before everything in it has.
#include "instance_supervisor.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <optional>
#include <span>

#include "execute.hpp"
#include "instance_log.hpp"
#include "run_plan.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGrace = std::chrono::seconds(10);
constexpr auto kKillLimit = std::chrono::seconds(10);
constexpr auto kHelpersLimit = std::chrono::seconds(3);
constexpr size_t kLogChunk = 64 << 10;

class InstanceSupervisor {
 public:
    explicit InstanceSupervisor(SupervisorJob job)
        : job_(std::move(job)),
          callers_mask_(sys::block_all_signals()),
          signals_(sys::signalfd_all()) {
        ::signal(SIGCHLD, SIG_DFL);
        sys::set_child_subreaper();  // the session's own processes are reaped here, too
        job_.record.supervisor = identify(::getpid()).value();
        job_.record.host_namespace = mount_namespace_of("self");
        // Killed meanwhile, our starter holds the name no more: it may be another's by now.
        if (pollfd gone{job_.channel.get(), POLLIN, 0}; ::poll(&gone, 1, 0) > 0) ::_exit(0);
        job_.directory.write(job_.record);
        tell(InstanceNews::born, std::to_string(::getpid()));
        log_.emplace(job_.directory.log_path(job_.record.name), job_.log_limit_bytes);
    }

    void run() {
        start_command();
        while (!ended_) {
            wait();
            while (const auto signal = sys::next_signal(signals_.get())) handle(*signal);
            while (const auto change = sys::next_child_change(job_.record.command.pid))
                handle(*change);
            if (stopping_ && Clock::now() >= kill_at_) kill_processes_of(job_.record, kKillLimit);
        }
        finish();
    }

 private:
    /// Write the record, unless the name has become another's.
    void remember() {
        const auto now = job_.directory.read(job_.record.name);
        if (now && now->id == job_.record.id) job_.directory.write(job_.record);
    }

    void tell(InstanceNews news, const std::string& text = {}) {
        if (!job_.channel) return;
        const std::string message = static_cast<char>(news) + text;
        try {
            sys::send_message(job_.channel.get(), std::as_bytes(std::span(message)), {});
        } catch (const SysError&) {  // who started us has gone; the channel's end says so
        }
    }

    void start_command() {
        auto [reader, writer] = sys::pipe();
        output_ = std::move(reader);
        const UniqueFd self = sys::pidfd_open(::getpid());
        const int out = writer.get();
        child_ = fork_child([&, out]() -> int {
            ::setsid();
            sys::set_parent_death_signal(SIGKILL);
            if (sys::wait_process_end(self.get(), 0)) return kExitOwnFailure;
            if (::dup2(out, STDOUT_FILENO) < 0 || ::dup2(out, STDERR_FILENO) < 0)
                throw SysError("cannot connect the command's output", "dup2");
            for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) sys::set_cloexec(fd, false);
            sys::set_signal_mask(callers_mask_);
            execute_plan(job_.plan);
        });
        writer.reset();
        if (::fcntl(output_.get(), F_SETFL, O_NONBLOCK) != 0)
            throw SysError("cannot prepare a pipe", "fcntl");
        job_.record.command = identify(child_.process.pid()).value();
        remember();
    }

    void wait() {
        pollfd waits[5] = {{signals_.get(), POLLIN, 0},
                           {output_.get(), POLLIN, 0},
                           {child_.error_pipe.get(), POLLIN, 0},
                           {job_.channel.get(), POLLIN, 0},
                           {job_.watched.get(), POLLIN, 0}};
        int timeout_ms = -1;
        if (stopping_) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(kill_at_ - Clock::now());
            timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT_MAX));
        }
        if (::poll(waits, 5, timeout_ms) <= 0) return;
        if (waits[1].revents != 0) keep_output();
        if (waits[2].revents != 0) take_start();
        if (waits[3].revents != 0) hear();
        if (waits[4].revents != 0) {
            job_.watched.reset();
            begin_stop(kGrace);
        }
    }

    void keep_output() {
        char buffer[kLogChunk];
        const ssize_t size = ::read(output_.get(), buffer, sizeof buffer);
        if (size > 0)
            log_->append({buffer, static_cast<size_t>(size)});
        else if (size == 0 || (errno != EAGAIN && errno != EINTR))
            output_.reset();
    }

    /// The pipe of errors closes when the command has been executed, or could not be.
    void take_start() {
        error_ = read_all(child_.error_pipe.get(), "error pipe");
        child_.error_pipe.reset();
        if (!error_.empty()) return;
        job_.record.entered = true;
        remember();
        tell(InstanceNews::started);
    }

    void hear() {
        char byte = 0;
        const ssize_t size = ::recv(job_.channel.get(), &byte, 1, MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (size == 1 && byte == kInstanceAccepted) {
            job_.record.accepted = true;
            job_.record.ready = job_.record.awaits_ready;
            remember();
            tell(InstanceNews::ready);
        } else {
            begin_stop(std::chrono::seconds(0));  // nobody waits for it any more
        }
        job_.channel.reset();
    }

    void handle(const sys::SignalReceived& signal) {
        for (const int wanted : {SIGTERM, SIGINT, SIGHUP, SIGQUIT})
            if (signal.number == wanted) begin_stop(kGrace);
    }

    void handle(const sys::ChildChange& change) {
        if (change.stopped || change.pid != job_.record.command.pid) return;
        ended_ = child_.process.wait();
    }

    void begin_stop(std::chrono::seconds grace) {
        if (stopping_) return;
        stopping_ = true;
        if (!job_.record.entered) grace = {};  // nothing runs yet that could end well
        kill_at_ = Clock::now() + grace;
        if (grace.count() == 0) return;
        sys::try_signal(child_.process.pidfd(), job_.record.stop_signal);
        sys::try_signal(child_.process.pidfd(), SIGCONT);
    }

    /// The instance ends with its command: what that left is killed, what served it ends by itself.
    void finish() {
        kill_processes_of(job_.record, kKillLimit);
        for (pollfd more{output_.get(), POLLIN, 0}; output_ && ::poll(&more, 1, 0) > 0;)
            keep_output();
        const auto deadline = Clock::now() + kHelpersLimit;
        while (!descendants_of(::getpid()).empty()) {
            pollfd child{signals_.get(), POLLIN, 0};
            ::poll(&child, 1, 20);
            while (sys::next_signal(signals_.get())) continue;
            while (sys::next_child_change(0)) continue;
            if (Clock::now() < deadline) continue;
            for (const auto& helper : descendants_of(::getpid())) signal_process(helper, SIGKILL);
        }
        if (child_.error_pipe) error_ = read_all(child_.error_pipe.get(), "error pipe");
        job_.record.end = ended_->describe();
        job_.record.exit_status = ended_->shell_code();
        remember();
        if (error_.empty())
            tell(InstanceNews::ended, job_.record.end);
        else
            tell(InstanceNews::failed, error_);
    }

    SupervisorJob job_;
    sigset_t callers_mask_;
    UniqueFd signals_;
    std::optional<LogWriter> log_;
    UniqueFd output_;
    ForkedChild child_;
    std::string error_;
    std::optional<ExitStatus> ended_;
    bool stopping_ = false;
    Clock::time_point kill_at_;
};

}  // namespace

void supervise_instance(SupervisorJob job) {
    ::setsid();
    ::prctl(PR_SET_NAME, "slipway-service");
    sys::null_standard_descriptors(STDIN_FILENO, STDERR_FILENO);
    std::vector<int> kept = descriptors_of(job.plan);
    kept.insert(kept.end(), {job.channel.get(), job.watched.get()});
    sys::close_all_but(kept);
    (void)!::chdir("/");
    // The supervisor closes its end when it has been accepted; an error is told even then.
    const UniqueFd channel(::fcntl(job.channel.get(), F_DUPFD_CLOEXEC, 0));
    std::string error_text;
    try {
        InstanceSupervisor(std::move(job)).run();
    } catch (const Error& error) {
        error_text = error.serialize();
    } catch (const std::exception& error) {
        error_text = Error(ErrorKind::internal, error.what()).serialize();
    }
    if (!error_text.empty()) {
        error_text.insert(0, 1, static_cast<char>(InstanceNews::failed));
        (void)!::send(channel.get(), error_text.data(), error_text.size(), MSG_NOSIGNAL);
    }
    ::_exit(0);
}

}  // namespace slipway::runtime
