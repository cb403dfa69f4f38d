// Asks an instance whether it is ready: by a command inside, a port, or a text in its log.
// Must not: decide what happens when it is not.
#include "instance_ready.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "execute.hpp"
#include "instance_exec.hpp"
#include "instance_log.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/sys_process.hpp"

namespace slipway::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kFirstPause = std::chrono::milliseconds(10);
constexpr auto kLongestPause = std::chrono::milliseconds(500);

bool has_news(int channel, std::chrono::milliseconds wait) {
    pollfd ready{channel, POLLIN, 0};
    return ::poll(&ready, 1, static_cast<int>(wait.count())) > 0;
}

/// One run of the shell command inside. An end of the instance or of the time kills it.
bool command_succeeds(const std::string& command, const InstanceRecord& record, int channel,
                      Clock::time_point deadline) {
    ForkedChild child = fork_child([&]() -> int {
        sys::set_parent_death_signal(SIGKILL);
        sys::null_standard_descriptors(STDIN_FILENO, STDERR_FILENO);
        enter_instance(record);
        RunPlan plan;
        plan.argv = {"/bin/sh", "-c", command};
        plan.environment = record.environment;
        plan.working_directory = record.working_directory;
        plan.fake_root_calls = record.fake_root_calls;
        execute_plan(plan);
    });
    pollfd waits[2] = {{child.process.pidfd(), POLLIN, 0}, {channel, POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    ::poll(waits, 2, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (waits[0].revents == 0) return false;
    return wait_forked(child).success();  // its errors, a missing /bin/sh say, are the user's
}

}  // namespace

bool awaits_ready(const InstanceStart& start) {
    return start.ready_command || start.ready_port || start.ready_log;
}

void check_ready_request(const InstanceStart& start) {
    if (start.ready_port && sys::tcp_port_answers(*start.ready_port))
        throw Error(ErrorKind::conflict,
                    fmt::format("something listens on port {} already", *start.ready_port))
            .note("requested by: --ready-port")
            .hint(fmt::format("choose another port, or find who has it: ss -ltnp sport = :{}",
                              *start.ready_port));
}

ReadyOutcome wait_until_ready(const InstanceStart& start, const InstanceRecord& record,
                              const std::string& log_path, int channel,
                              Clock::time_point deadline) {
    bool answers = !start.ready_port;
    bool told = !start.ready_log;
    bool succeeded = !start.ready_command;
    LogReader log(log_path);
    std::string text;
    auto pause = kFirstPause;
    while (true) {
        answers = answers || sys::tcp_port_answers(*start.ready_port);
        if (!told) {
            text += log.read_new();
            told = text.find(*start.ready_log) != std::string::npos;
            // What was searched is not searched again, but for a text that is cut in two.
            if (text.size() > start.ready_log->size())
                text.erase(0, text.size() - start.ready_log->size());
        }
        if (answers && told && !succeeded)
            succeeded = command_succeeds(*start.ready_command, record, channel, deadline);
        if (has_news(channel, std::chrono::milliseconds(0))) return ReadyOutcome::news;
        if (answers && told && succeeded) return ReadyOutcome::ready;
        if (Clock::now() >= deadline) return ReadyOutcome::timed_out;
        if (has_news(channel, pause)) return ReadyOutcome::news;
        pause = std::min(pause * 2, kLongestPause);
    }
}

}  // namespace slipway::runtime
