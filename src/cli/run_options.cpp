// The options of a run, named once, and the request that they make.
// Must not: read a command line, or validate; the runtime does, and names the option.
#include "run_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "command.hpp"
#include "slipway/base/error.hpp"

namespace slipway::cli {
namespace {

using Kind = runtime::EnvChange::Kind;

/// Split what follows the options: IMAGE [--] [COMMAND...].
void take_image_and_command(const TypedRun& typed, runtime::RunOptions& run) {
    const auto& words = typed.words;
    if (words.empty())
        throw Error(ErrorKind::usage, "no image was named")
            .hint(fmt::format("{} {}IMAGE -- COMMAND", typed.subcommand, typed.before_image));
    if (words[0].size() > 1 && words[0][0] == '-')
        throw Error(ErrorKind::usage, "unknown option " + slipway::quoted(words[0]))
            .hint(typed.subcommand + " --help");
    run.image = words[0];
    const size_t first = words.size() > 1 && words[1] == "--" ? 2 : 1;
    run.command.assign(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
}

/// Changes of the environment count in the order in which they were typed, whatever option made
/// them.
std::vector<runtime::EnvChange> env_in_order(const TypedRun& typed, const RunFlags& flags) {
    struct Source {
        Kind kind;
        const std::vector<std::string>& values;
        std::string_view option;
        size_t taken = 0;
    };
    Source sources[] = {{Kind::set, flags.env, "--env"},
                        {Kind::file, flags.env_files, "--env-file"},
                        {Kind::unset, flags.unset_env, "--unset-env"}};
    std::vector<runtime::EnvChange> changes;
    for (const std::string& option : typed.options)
        for (Source& source : sources) {
            if (source.option != option || source.taken == source.values.size()) continue;
            const std::string& value = source.values[source.taken++];
            changes.push_back(
                {source.kind, {value, fmt::format("{}, argument {}", option, source.taken)}});
        }
    return changes;
}

void add_mounts(OptionTable& table, RunFlags& flags) {
    table.values("-b,--bind,--volume", flags.binds,
                 "SRC[:DST[:OPTIONS]]: show a file or directory of the host");
    table.values("--data", flags.data,
                 "FILE.sqfs|NAME|docker://REF:DST: show a data pack, served like the image");
    table.flag("-w,--write", flags.run.write, "let the command change a directory image");
    table.value("--overlay", flags.overlay,
                "tmpfs[=SIZE] or DIR: take changes in memory, or keep them in DIR");
    table.flag("-t,--private-tmp", flags.run.private_tmp, "a /tmp of its own, in memory");
    table.flag("--home", flags.run.home, "show the home directory");
    table.flag("!--no-site-mounts", flags.run.site_mounts,
               "leave out the binds of the mounts.d directories");
    table.flag("--stage{auto}", flags.stage,
               "copy image and packs to a local disk first, once per node (=DIR: to this one)");
}

void add_environment(OptionTable& table, RunFlags& flags) {
    table.values("-e,--env,--set-env", flags.env, "KEY=VALUE, or KEY for the host's value");
    table.values("--env-file", flags.env_files, "FILE with lines KEY=VALUE");
    table.values("--unset-env", flags.unset_env, "GLOB of variables to take out");
    table.flag("--clean-env", flags.run.clean_env,
               "nothing of the host's environment but what its launcher needs");
    table.flag("--keep-env", flags.run.keep_env, "the host's environment as it is");
}

void add_identity(OptionTable& table, RunFlags& flags) {
    table.value("--user", flags.user, "NAME|UID[:GROUP|GID] of the image to be inside");
    table.value("-u,--uid", flags.uid, "user id inside");
    table.value("-g,--gid", flags.gid, "group id inside");
    table.flag("--root", flags.run.root, "be root inside (uid and gid 0)");
    table.flag("--no-passwd", flags.run.keep_accounts,
               "leave the image's /etc/passwd and /etc/group as they are");
    table.value("--hostname", flags.hostname, "host name inside");
    table.flag("--seccomp", flags.run.fake_root_calls,
               "let privileged system calls succeed without effect");
}

void add_process(OptionTable& table, RunFlags& flags) {
    table.value("--entrypoint", flags.entrypoint,
                "program to run in place of the image's ENTRYPOINT (\"\": none)");
    table.value("-c,--cd,--workdir", flags.directory, "initial directory inside");
    table.value("--timeout", flags.timeout,
                "end the command after DURATION: SIGTERM, ten seconds later SIGKILL");
    table.flag("--detach-on-kill", flags.run.detach_on_kill,
               "let the command live on when this program is killed with SIGKILL");
    table.value("--session", flags.run.session,
                "NAME or none: share namespaces under a name of your own, or not at all");
    table.value("--linger", flags.linger,
                "keep the session for DURATION after its last command, for the next");
    table.flag("--verify{auto}", flags.verify,
               "check the image's signature, and every block that is read (=FILE: with this key "
               "or authority)");
    table.value("-s,--storage", flags.run.store, "the image store (default: $SLIPWAY_STORE)");
}

}  // namespace

void declare_run_options(OptionTable& table, RunFlags& flags) {
    add_mounts(table, flags);
    add_environment(table, flags);
    add_identity(table, flags);
    add_process(table, flags);
}

runtime::RunOptions take_run_options(const TypedRun& typed, RunFlags& flags) {
    runtime::RunOptions& run = flags.run;
    take_image_and_command(typed, run);
    run.binds = with_origin(flags.binds, "--bind");
    run.data = with_origin(flags.data, "--data");
    run.env = env_in_order(typed, flags);
    const auto take = [&typed](std::string_view option, const std::string& value,
                               std::optional<std::string>& into) {
        if (std::ranges::find(typed.options, option) != typed.options.end()) into = value;
    };
    take("--entrypoint", flags.entrypoint, run.entrypoint);
    take("--cd", flags.directory, run.directory);
    take("--overlay", flags.overlay, run.overlay);
    take("--user", flags.user, run.user);
    take("--uid", flags.uid, run.uid);
    take("--gid", flags.gid, run.gid);
    take("--hostname", flags.hostname, run.hostname);
    take("--linger", flags.linger, run.linger);
    take("--timeout", flags.timeout, run.timeout);
    take("--stage", flags.stage, run.stage);
    take("--verify", flags.verify, run.verify);
    runtime::apply_configuration(configuration(), run);
    return run;
}

}  // namespace slipway::cli
