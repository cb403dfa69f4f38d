// Slipway is linked twice. `bin/slipway` is the starter: static, so that a rank starts without the
// dynamic loader; it runs containers and no more. `libexec/slipway/slipway-full` is the full
// program: it has every subcommand, and can load libraries and ask the site's name services.
#pragma once

#include <string>

namespace slipway {

/// Say that this process is the starter. Once, at its start.
void declare_starter();

/// Go on as the full program, with this process's arguments and environment; return at once where
/// this is the full program already. Pre: one thread, and nothing begun that must not begin twice.
/// Throws: Error(not_found) if it is not installed beside the starter, SysError(execve),
/// Error(internal) once beginning again is forbidden.
void need_full_program();

/// Say that something has begun that must not begin twice: whoever enters a namespace says it
/// (sys::unshare and sys::setns do). Begun anew inside, a run would look for everything in the
/// wrong place, with the wrong ids. Of no consequence in the full program.
void forbid_full_program() noexcept;

/// The directory that Slipway is installed in: `bin` and `libexec/slipway` lie there.
std::string installed_prefix();

}  // namespace slipway
