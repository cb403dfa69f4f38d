// Processes that outlive us and are nobody's child: a session's broker, an image's server.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

namespace slipway::runtime {

/// A process forked by a process in between, so that it is not a child of the user's command,
/// which this process will become: what ends all its children must not end the image's server. The
/// one in between forks while we go on, ends without a SIGCHLD, and is reaped when there is nothing
/// better to do.
class DetachedFork {
 public:
    /// What the new process does; it must not return. It is told on which processor its creator
    /// runs.
    using Body = std::function<void(int creators_processor)>;
    /// Pre: single-threaded. Throws: Error(host_forbids) when the one in between cannot be started;
    /// `what` is it for.
    DetachedFork(const char* what, const Body& body);
    DetachedFork(DetachedFork&& other) noexcept;
    DetachedFork& operator=(DetachedFork&& other) noexcept;
    ~DetachedFork();

 private:
    pid_t middle_ = -1;
};

/// Turn this process into one without ties to who started it: own session, stdio on /dev/null,
/// all processors but the one where its creator is at work, graceful signals ignored, no descriptor
/// but `kept`; `name` is what ps shows.
void become_background(const char* name, const std::vector<int>& kept, int creators_processor);

}  // namespace slipway::runtime
