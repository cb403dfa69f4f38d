// Sharing one container between the ranks of a job step on a node: a rank's side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detached.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/fd.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::runtime {

/// What the maker of a session owes to its broker: the container, or the reason why there is none.
class SessionDuty {
 public:
    SessionDuty(UniqueFd broker, DetachedFork forked)
        : broker_(std::move(broker)), forked_(std::move(forked)) {}
    /// Hand the container over: its namespaces in the order of the plan, then, unless it is -1, a
    /// pidfd of the image's server. A broker that has gone is no loss: the next rank makes another.
    void hand_over(const std::vector<int>& namespaces, int server);
    /// Tell the ranks that wait. Not for what happened to this process alone: who goes without a
    /// word is replaced.
    void fail(const Error& error);

 private:
    UniqueFd broker_;
    DetachedFork forked_;  ///< reaped by the destructor, just before the user's command starts
};

/// How the question for a session ended.
struct SessionEntry {
    enum class Kind {
        entered,  ///< this process is in the session's namespaces, with its root as "/"
        maker,    ///< nobody had it: make the container here and do the duty
        none      ///< no session can be had; a warning said why. Use a private container
    } kind = Kind::none;
    std::optional<SessionDuty> duty;
};

/// Enter the session of the plan's key. The election: who binds the abstract socket of the key's
/// name starts the broker and makes the container; all others ask that socket for the namespaces.
/// Nobody leads: a broker that goes is replaced by the next who asks.
/// Pre: single-threaded. Throws: the error of the container's set-up in the rank that makes it;
/// Error(conflict) when the session of an explicit name runs another plan.
SessionEntry enter_session(const RunPlan& plan);

/// The abstract name under which a session answers.
std::string session_socket_name(const std::string& key);

}  // namespace slipway::runtime
