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
constexpr int kAnswerMs = 200;
constexpr long kGraceNs = 20'000'000;  // Slurm signals one process after the other

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
        const char heard = ::sigtimedwait(&one, nullptr, &grace) == number ? 1 : 0;
        if (::send(socket, &heard, 1, MSG_NOSIGNAL) != 1) break;
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
    if (!child_) return false;
    const auto number = static_cast<unsigned char>(signal.number);
    if (::send(ours_.get(), &number, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) return false;
    pollfd answer{ours_.get(), POLLIN, 0};
    char heard = 0;
    if (::poll(&answer, 1, kAnswerMs) <= 0 || ::recv(ours_.get(), &heard, 1, MSG_DONTWAIT) != 1)
        return false;
    return heard == 1 && is_slurm(signal.sender);
}

}  // namespace slipway::runtime
