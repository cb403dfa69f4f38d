// A process that hears the signals of its job step and answers whether it did.
// Must not: be believed of any sender but Slurm: a user's kill may hit it by its name.
#include "signal_witness.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <string_view>

#include "slipway/base/error.hpp"
#include "slipway/base/process_facts.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

constexpr std::string_view kSlurm = "slurmstepd";
constexpr int kMaxAncestors = 16;
constexpr int kAnswerMs = 1000;
constexpr long kGraceNs = 200'000'000;  // Slurm signals one process after the other

bool is_slurm(pid_t pid) {
    const auto facts = read_process(pid);
    return facts && facts->name == kSlurm;
}

bool below_slurm() {
    pid_t pid = ::getppid();
    for (int depth = 0; depth < kMaxAncestors && pid > 1; ++depth) {
        const auto facts = read_process(pid);
        if (!facts) return false;
        if (facts->name == kSlurm) return true;
        pid = facts->parent;
    }
    return false;
}

int hear(int socket) {
    sys::set_parent_death_signal(SIGKILL);
    ::prctl(PR_SET_NAME, "slipway-witness");
    sys::null_standard_descriptors(STDIN_FILENO, STDERR_FILENO);
    sys::close_all_but({socket});
    unsigned char number = 0;
    while (::recv(socket, &number, 1, 0) == 1) {
        sigset_t one;
        ::sigemptyset(&one);
        ::sigaddset(&one, number);
        const timespec grace{0, kGraceNs};
        const bool heard = ::sigtimedwait(&one, nullptr, &grace) == number;
        const unsigned char answer[2] = {number, heard};
        if (::send(socket, answer, sizeof answer, MSG_NOSIGNAL) != sizeof answer) break;
    }
    return 0;
}

}  // namespace

SignalWitness::SignalWitness() {
    if (!below_slurm()) return;
    auto [ours, theirs] = sys::socketpair(SOCK_SEQPACKET);
    child_ = fork_child([&, &end = theirs] { return hear(end.get()); });
    child_->error_pipe.reset();
    ours_ = std::move(ours);
}

bool SignalWitness::went_to_everybody(const sys::SignalReceived& signal) {
    if (!child_ || !is_slurm(signal.sender)) return false;
    const auto number = static_cast<unsigned char>(signal.number);
    unsigned char answer[2] = {};
    // One that came too late for its own question is not the answer to this.
    while (::recv(ours_.get(), answer, sizeof answer, MSG_DONTWAIT) > 0) continue;
    if (::send(ours_.get(), &number, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) return false;
    pollfd ready{ours_.get(), POLLIN, 0};
    while (::poll(&ready, 1, kAnswerMs) > 0) {
        if (::recv(ours_.get(), answer, sizeof answer, MSG_DONTWAIT) != sizeof answer) return false;
        if (answer[0] == number) return answer[1] != 0;
    }
    return false;
}

}  // namespace slipway::runtime
