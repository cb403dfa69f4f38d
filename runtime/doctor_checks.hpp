// The checks of `slipway doctor`, a file for each topic, and what they share.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/runtime/doctor.hpp"

namespace slipway::runtime::doctor {

using Findings = std::vector<Finding>;

/// How a trial ended: the text it returned, or why it failed.
struct Trial {
    std::string text;
    std::optional<Error> error;
    bool ok() const { return !error.has_value(); }
};

/// Run `body` in a forked child that dies with us; one that does not end in time is killed.
Trial try_in_child(const std::function<std::string()>& body,
                   std::chrono::milliseconds timeout = std::chrono::seconds(10));

Finding good(const std::string& name, const std::string& found);
/// A finding of a failed trial: the error's words, notes and hint; `meaning` and `remedy` win over
/// the error's when they are not empty.
Finding failed(Finding::Level level, const std::string& name, const Error& error,
               const std::string& meaning, const std::string& remedy = {});
Finding skipped(const std::string& name, const std::string& reason);

/// User namespaces, mounts, /dev/fuse, a squashfs served through it, overlays, seccomp.
Findings check_isolation(const std::string& store);
/// Limits of processes, descriptors, namespaces and locked memory.
Findings check_limits();
/// pidfds, memory of other processes, shared memory, launcher, devices.
Findings check_processes();
/// $TMPDIR and the store: type, space, attributes, locks.
Findings check_places(const std::string& store);
/// Versions, settings with the layer that won, the site's policy.
Findings check_settings();

/// How long a file system may take to answer.
inline constexpr auto kPatience = std::chrono::seconds(5);

/// The nearest directory of `path` that is there; `path` itself when nothing answers.
std::string nearest_directory(const std::string& path);
/// Look into a directory before we use it ourselves: a dead server's would hold us for ever.
/// Throws: Error(busy), or why it cannot be read.
void require_answer(const std::string& directory);

}  // namespace slipway::runtime::doctor
