// Declares the options of what runs in an image, once, and takes them in the order typed.
// Must not: validate; the runtime does, and names the option.
#include "run_options.hpp"

#include <fmt/format.h>

#include <map>

#include "command.hpp"
#include "slipway/base/error.hpp"

namespace slipway::cli {
namespace {

using Kind = runtime::EnvChange::Kind;

/// Split what follows the options: IMAGE [--] [COMMAND...].
void take_image_and_command(const std::vector<std::string>& words, const std::string& name,
                            runtime::RunOptions& run) {
    const std::string usage = "slipway " + name;
    if (words.empty())
        throw Error(ErrorKind::usage, "no image was named").hint(usage + " IMAGE -- COMMAND");
    if (words[0].size() > 1 && words[0][0] == '-')
        throw Error(ErrorKind::usage, "unknown option " + slipway::quoted(words[0]))
            .hint(usage + " --help");
    run.image = words[0];
    const size_t first = words.size() > 1 && words[1] == "--" ? 2 : 1;
    run.command.assign(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
}

/// Changes of the environment count in the order in which they were typed, whatever option made
/// them.
std::vector<runtime::EnvChange> env_in_order(const CLI::App& command, const RunFlags& flags) {
    struct Source {
        Kind kind;
        const std::vector<std::string>& values;
        const char* option;
        size_t taken = 0;
    };
    std::map<const CLI::Option*, Source> sources;
    sources.emplace(command.get_option("--env"), Source{Kind::set, flags.env, "--env"});
    sources.emplace(command.get_option("--env-file"),
                    Source{Kind::file, flags.env_files, "--env-file"});
    sources.emplace(command.get_option("--unset-env"),
                    Source{Kind::unset, flags.unset_env, "--unset-env"});
    std::vector<runtime::EnvChange> changes;
    for (const CLI::Option* option : command.parse_order()) {
        const auto found = sources.find(option);
        if (found == sources.end()) continue;
        Source& source = found->second;
        if (source.taken == source.values.size()) continue;
        const std::string& value = source.values[source.taken++];
        changes.push_back(
            {source.kind, {value, fmt::format("{}, argument {}", source.option, source.taken)}});
    }
    return changes;
}

void add_mounts(CLI::App& command, RunFlags& flags) {
    command
        .add_option("-b,--bind,--volume", flags.binds,
                    "SRC[:DST[:OPTIONS]]: show a file or directory of the host")
        ->allow_extra_args(false);
    command
        .add_option("--data", flags.data, "FILE.sqfs:DST: show a data pack, served like the image")
        ->allow_extra_args(false);
    command.add_flag("-w,--write", flags.run.write, "let the command change a directory image");
    command.add_option("--overlay", flags.overlay,
                       "tmpfs[=SIZE] or DIR: take changes in memory, or keep them in DIR");
    command.add_flag("-t,--private-tmp", flags.run.private_tmp, "a /tmp of its own, in memory");
    command.add_flag("--home", flags.run.home, "show the home directory");
    command.add_flag("!--no-site-mounts", flags.run.site_mounts,
                     "leave out the binds of the mounts.d directories");
    command.add_flag(
        "--stage{auto}", flags.stage,
        "copy image and packs to a local disk first, once per node (=DIR: to this one)");
}

void add_environment(CLI::App& command, RunFlags& flags) {
    command.add_option("-e,--env,--set-env", flags.env, "KEY=VALUE, or KEY for the host's value")
        ->allow_extra_args(false);
    command.add_option("--env-file", flags.env_files, "FILE with lines KEY=VALUE")
        ->allow_extra_args(false);
    command.add_option("--unset-env", flags.unset_env, "GLOB of variables to take out")
        ->allow_extra_args(false);
    command.add_flag("--clean-env", flags.run.clean_env,
                     "nothing of the host's environment but what its launcher needs");
    command.add_flag("--keep-env", flags.run.keep_env, "the host's environment as it is");
}

void add_identity(CLI::App& command, RunFlags& flags) {
    command.add_option("--user", flags.user, "NAME|UID[:GROUP|GID] of the image to be inside");
    command.add_option("-u,--uid", flags.uid, "user id inside");
    command.add_option("-g,--gid", flags.gid, "group id inside");
    command.add_flag("--root", flags.run.root, "be root inside (uid and gid 0)");
    command.add_flag("--no-passwd", flags.run.keep_accounts,
                     "leave the image's /etc/passwd and /etc/group as they are");
    command.add_option("--hostname", flags.hostname, "host name inside");
    command.add_flag("--seccomp", flags.run.fake_root_calls,
                     "let privileged system calls succeed without effect");
}

void add_process(CLI::App& command, RunFlags& flags) {
    command.add_option("--entrypoint", flags.entrypoint,
                       "program to run in place of the image's ENTRYPOINT (\"\": none)");
    command.add_option("-c,--cd,--workdir", flags.directory, "initial directory inside");
    command.add_option("--timeout", flags.timeout,
                       "end the command after DURATION: SIGTERM, ten seconds later SIGKILL");
    command.add_flag("--detach-on-kill", flags.run.detach_on_kill,
                     "let the command live on when this program is killed with SIGKILL");
    command.add_option("--session", flags.run.session,
                       "NAME or none: share namespaces under a name of your own, or not at all");
    command.add_option("--linger", flags.linger,
                       "keep the session for DURATION after its last command, for the next");
    command.add_option("-s,--storage", flags.run.store,
                       "the image store (default: $SLIPWAY_STORE)");
}

void take(const CLI::App& command, const char* option, const std::string& value,
          std::optional<std::string>& into) {
    const CLI::Option* found = command.get_option_no_throw(option);
    if (found != nullptr && found->count() > 0) into = value;
}

}  // namespace

void add_run_options(CLI::App& command, RunFlags& flags) {
    command.prefix_command();
    add_mounts(command, flags);
    add_environment(command, flags);
    add_identity(command, flags);
    add_process(command, flags);
}

runtime::RunOptions take_run_options(const CLI::App& command, RunFlags& flags) {
    runtime::RunOptions& run = flags.run;
    take_image_and_command(command.remaining(), command.get_name(), run);
    run.binds = with_origin(flags.binds, "--bind");
    run.data = with_origin(flags.data, "--data");
    run.env = env_in_order(command, flags);
    take(command, "--entrypoint", flags.entrypoint, run.entrypoint);
    take(command, "--cd", flags.directory, run.directory);
    take(command, "--overlay", flags.overlay, run.overlay);
    take(command, "--user", flags.user, run.user);
    take(command, "--uid", flags.uid, run.uid);
    take(command, "--gid", flags.gid, run.gid);
    take(command, "--hostname", flags.hostname, run.hostname);
    take(command, "--linger", flags.linger, run.linger);
    take(command, "--timeout", flags.timeout, run.timeout);
    take(command, "--stage", flags.stage, run.stage);
    runtime::apply_configuration(configuration(), run);
    return run;
}

}  // namespace slipway::cli
