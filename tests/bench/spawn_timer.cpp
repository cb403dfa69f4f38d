// Start COPIES of a command at once, wait for all, print the nanoseconds that passed and the
// failures. Must not: use fork(), whose cost grows with the caller, or do anything between the
// clock and posix_spawn.
//
// Usage: spawn_timer COPIES ERRORS COMMAND [ARG...]     "{n}" in an argument becomes the copy's
// number Output: NANOSECONDS FAILED STATUS     STATUS: of the first that failed, as the shell has
// it
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern char** environ;

namespace {

std::string numbered(std::string argument, int copy) {
    const std::size_t at = argument.find("{n}");
    return at == std::string::npos ? argument : argument.replace(at, 3, std::to_string(copy));
}

int shell_status(int status) {
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    const int copies = std::atoi(argv[1]);
    std::vector<std::vector<std::string>> words(copies);
    std::vector<std::vector<char*>> commands(copies);
    for (int copy = 0; copy < copies; ++copy) {
        for (int i = 3; i < argc; ++i) words[copy].push_back(numbered(argv[i], copy));
        for (std::string& word : words[copy]) commands[copy].push_back(word.data());
        commands[copy].push_back(nullptr);
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);

    const auto start = std::chrono::steady_clock::now();
    int started = 0, failed = 0, first = 0;
    for (std::vector<char*>& command : commands) {
        pid_t pid;
        if (const int error =
                posix_spawn(&pid, command[0], &actions, nullptr, command.data(), environ)) {
            std::fprintf(stderr, "spawn_timer: %s: %s\n", command[0], std::strerror(error));
            ++failed;
            if (!first) first = 127;
        } else {
            ++started;
        }
    }
    for (; started > 0; --started) {
        int status = 0;
        if (waitpid(-1, &status, 0) < 0) return 1;
        if (status == 0) continue;
        ++failed;
        if (!first) first = shell_status(status);
    }
    const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - start;
    std::printf("%lld %d %d\n", static_cast<long long>(passed.count()), failed, first);
    return 0;
}
