// The one exception of Slipway: an error as data, worded once and printed by the command line.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace slipway {

/// What went wrong, in the classes a user can act on. Each has a slug in docs/reference/errors.md.
enum class ErrorKind {
    usage,            ///< the command line or a configuration value cannot be understood
    not_found,        ///< a file, image, blob or program that was named is not there
    already_exists,   ///< refusing to overwrite something
    invalid_image,    ///< an image, layout, squashfs or configuration that breaks its format
    invalid_archive,  ///< a tar or layer that breaks its format
    unsafe_path,      ///< a path that would leave the place it belongs to
    invalid_recipe,   ///< a Dockerfile or .dockerignore that cannot be understood
    unsupported,      ///< valid, but not something this version does
    host_forbids,     ///< the kernel or the administrator does not allow it
    permission,       ///< the user may not touch this file
    conflict,         ///< two requests that exclude each other
    busy,             ///< a lock was not free in time
    no_space,         ///< disk or quota is full
    io,               ///< reading or writing failed
    command_failed,   ///< a command we ran for the user ended with a failure
    invalid_data,     ///< training data, a model or a checkpoint that breaks its format
    launcher,         ///< ranks, transports and what the MPI launcher gave us
    internal,         ///< our own mistake
};

/// Every kind, in declaration order; the test that holds docs/reference/errors.md reads it.
const std::vector<ErrorKind>& all_error_kinds();
/// Return the slug of a kind: lower case, words joined by "-", for example "invalid-image".
std::string_view slug(ErrorKind kind);

/// Exit status of our own failures, as podman and the shell have it.
inline constexpr int kExitOwnFailure = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

/// An error with what the user needs: message, context, remedy.
/// The message is lower case, has no full stop, and quotes paths: cannot read "x": Permission
/// denied (EACCES, open).
class Error : public std::exception {
 public:
    Error(ErrorKind kind, std::string message);

    /// Add one line of context ("requested by: --bind, argument 2"); chainable in a throw
    /// expression.
    Error& note(std::string text) &;
    Error&& note(std::string text) &&;
    /// Set the remedy, a sentence that begins with a verb; the last one set counts.
    Error& hint(std::string text) &;
    Error&& hint(std::string text) &&;
    /// Set the process's exit status (default 125).
    Error& exit_status(int status) &;
    Error&& exit_status(int status) &&;

    ErrorKind kind() const { return kind_; }
    const char* what() const noexcept override { return message_.c_str(); }
    const std::string& message() const { return message_; }
    const std::vector<std::string>& notes() const { return notes_; }
    const std::string& hint() const { return hint_; }
    int errno_value() const { return errno_; }
    int exit_status() const { return exit_status_; }

    /// Word the whole error as the user sees it, several lines, without colour and with a final
    /// newline.
    std::string render() const;
    /// One line of JSON; parse_error() reads it back. For handing an error from a child to its
    /// parent, whole.
    std::string serialize() const;

 protected:
    ErrorKind kind_;
    std::string message_;
    std::vector<std::string> notes_;
    std::string hint_;
    int errno_ = 0;
    int exit_status_ = kExitOwnFailure;
    friend Error parse_error(std::string_view line);
};

/// Read what Error::serialize wrote.
Error parse_error(std::string_view line);

/// A failed system call. Construct it first thing after the call: it takes errno before anything
/// else runs. `action` is what we could not do with its subject: cannot open "/x"; `call` is the
/// call's name: openat.
class SysError : public Error {
 public:
    SysError(std::string_view action, std::string_view call);
    SysError(int errno_value, std::string_view action, std::string_view call);
};

/// Return "EACCES" for 13, and so on; "errno 4242" for one we do not know.
std::string errno_name(int errno_value);
/// Return the text in double quotes with control characters escaped, for use in messages.
std::string quoted(std::string_view text);

}  // namespace slipway
