// Turns the starter into the full program.
// Must not: know what either of them does.
#include "slipway/base/full_program.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway {

namespace {

bool is_starter = false;
bool is_forbidden = false;

constexpr std::string_view kFullProgram = "libexec/slipway/slipway-full";

}  // namespace

void declare_starter() { is_starter = true; }

void forbid_full_program() noexcept { is_forbidden = true; }

void need_full_program() {
    if (!is_starter) return;
    if (is_forbidden)
        throw Error(ErrorKind::internal,
                    "the full program is needed after the container's namespaces were entered")
            .note("what needs it has to be asked for while the run is planned");
    const std::string program = join_path(installed_prefix(), kFullProgram);
    std::string words = read_file("/proc/self/cmdline");
    std::vector<char*> argv;
    for (size_t at = 0; at < words.size(); at = words.find('\0', at) + 1)
        argv.push_back(words.data() + at);
    argv.push_back(nullptr);
    ::execve(program.c_str(), argv.data(), environ);
    if (errno == ENOENT)
        throw Error(ErrorKind::not_found, fmt::format("there is no {}", quoted(program)))
            .note("the starter bin/slipway needs it for this")
            .hint("copy Slipway with its whole prefix: bin and libexec/slipway");
    throw SysError("cannot start " + quoted(program), "execve");
}

std::string installed_prefix() {
    const std::string program = sys::readlinkat(AT_FDCWD, "/proc/self/exe");
    const std::string prefix(parent_path(parent_path(program)));
    return base_name(prefix) == "libexec" ? std::string(parent_path(prefix)) : prefix;
}

}  // namespace slipway
