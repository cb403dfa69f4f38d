// Executes a command with an exact environment and turns execve's errnos into words.
// Must not: change namespaces, directories or descriptors.
#include "exec_command.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/text.hpp"

namespace slipway::runtime {

namespace {

constexpr std::string_view kElfMagic =
    "\x7f"
    "ELF";

/// The first bytes of a file, as far as we may read it.
std::string read_head(const std::string& path) {
    try {
        const UniqueFd fd = sys::open(path, O_RDONLY);
        std::string head(256, '\0');
        head.resize(sys::read(fd.get(), head.data(), head.size(), path));
        return head;
    } catch (const Error&) {
        return {};
    }
}

/// The file is there and yet execve said "no such file": its interpreter is what is missing.
Error missing_interpreter(const std::string& path) {
    const std::string head = read_head(path);
    std::string what = "its program interpreter (dynamic loader)";
    if (head.starts_with("#!")) {
        std::string_view line = std::string_view(head).substr(2);
        line = line.substr(0, line.find('\n'));
        const size_t from = line.find_first_not_of(" \t");
        line = from == std::string_view::npos ? "" : line.substr(from);
        what = "its interpreter " + slipway::quoted(line.substr(0, line.find_first_of(" \t\r")));
    }
    return Error(ErrorKind::not_found, fmt::format("cannot execute {}: {} is not in the image",
                                                   slipway::quoted(path), what))
        .exit_status(kExitNotFound);
}

Error refused(const std::string& path, int errno_value) {
    SysError error(errno_value, fmt::format("cannot execute {}", slipway::quoted(path)), "execve");
    error.exit_status(errno_value == ENOENT ? kExitNotFound : kExitNotExecutable);
    struct stat st {};
    if (errno_value == EACCES && ::stat(path.c_str(), &st) == 0) {
        if (S_ISDIR(st.st_mode))
            error.note("it is a directory");
        else if ((st.st_mode & 0111) == 0)
            error.note("it has no execute permission").hint("run chmod +x on it in the image");
    }
    if (errno_value == ENOENT)
        error.hint("name a program of the image; a relative path begins at the directory of --cd");
    if (errno_value == ENOTCONN || errno_value == ECONNABORTED)
        error.note("the image's server has ended").hint("run the command again");
    if (errno_value == EIO)
        error.note("the image is damaged, or its disk or server fails")
            .hint("copy or build the image again and compare checksums (sha256sum)");
    if (errno_value == ENOEXEC && read_head(path).starts_with(kElfMagic))
        error.note("it is made for another kind of processor, or damaged");
    if (errno_value == E2BIG)
        error.note("arguments and environment together are too long for the kernel");
    return error;
}

/// Try one file. Returns only when a later directory of PATH may still have the program.
int try_exec(const std::string& path, const std::vector<std::string>& argv,
             const std::vector<char*>& argv_pointers, const std::vector<char*>& env_pointers) {
    ::execve(path.c_str(), argv_pointers.data(), env_pointers.data());
    const int error = errno;
    if (error == ENOENT && ::access(path.c_str(), F_OK) == 0) throw missing_interpreter(path);
    if (error == ENOEXEC && !read_head(path).starts_with(kElfMagic)) {
        // As execvp(3) and every shell: a text without "#!" is a script of /bin/sh.
        std::vector<std::string> script{"/bin/sh", path};
        script.insert(script.end(), argv.begin() + 1, argv.end());
        ::execve("/bin/sh", exec_pointers(script).data(), env_pointers.data());
        throw refused(path, error)
            .note("it is a text without \"#!\", and the image has no /bin/sh to run it");
    }
    if (error == ENOENT || error == ENOTDIR || error == EACCES) return error;
    throw refused(path, error);
}

/// The file that a shell would execute for this name, or "".
std::string find_executable(const std::string& name, const std::string& path_list) {
    const auto is_program = [](const std::string& path) {
        struct stat st {};
        return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) &&
               ::access(path.c_str(), X_OK) == 0;
    };
    if (name.find('/') != std::string::npos) return is_program(name) ? name : "";
    for (const auto& directory : split(path_list, ':'))
        if (std::string path = directory + "/" + name; is_program(path)) return path;
    return "";
}

}  // namespace

std::string search_path(const std::vector<std::string>& environment) {
    for (const auto& entry : environment)
        if (entry.starts_with("PATH=")) return entry.substr(5);
    return "/usr/local/bin:/usr/bin:/bin";
}

void exec_shell(const std::vector<std::string>& shells, std::vector<std::string> argv,
                std::vector<std::string> environment) {
    for (const auto& name : shells) {
        const std::string path = find_executable(name, search_path(environment));
        if (path.empty()) continue;
        argv[0] = path;
        std::erase_if(environment, [](const auto& entry) { return entry.starts_with("SHELL="); });
        environment.push_back("SHELL=" + path);
        exec_command(argv, environment);
    }
    throw Error(ErrorKind::not_found, "the image has no shell")
        .note(fmt::format("looked for: {}", fmt::join(shells, ", ")))
        .hint("run a program of the image with: slipway run IMAGE -- COMMAND")
        .exit_status(kExitNotFound);
}

void exec_command(const std::vector<std::string>& argv,
                  const std::vector<std::string>& environment) {
    const auto argv_pointers = exec_pointers(argv);
    const auto env_pointers = exec_pointers(environment);
    const std::string& name = argv.front();
    if (name.find('/') != std::string::npos)
        throw refused(name, try_exec(name, argv, argv_pointers, env_pointers));
    const std::string path_list = search_path(environment);
    std::string denied;
    for (size_t from = 0; !name.empty() && from <= path_list.size();) {
        size_t to = path_list.find(':', from);
        if (to == std::string::npos) to = path_list.size();
        const std::string directory = path_list.substr(from, to - from);
        const std::string file = directory.empty() ? name : directory + "/" + name;
        if (try_exec(file, argv, argv_pointers, env_pointers) == EACCES && denied.empty() &&
            ::access(file.c_str(), F_OK) == 0)
            denied = file;
        from = to + 1;
    }
    if (!denied.empty()) throw refused(denied, EACCES);
    Error absent(ErrorKind::not_found,
                 fmt::format("cannot find the command {} in the image", slipway::quoted(name)));
    absent.note(fmt::format("PATH searched: {}", path_list)).exit_status(kExitNotFound);
    if (name.starts_with('-'))
        absent.hint("put options before IMAGE: what follows it is a command");
    throw absent;
}

}  // namespace slipway::runtime
