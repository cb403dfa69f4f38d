// Declares the options of what runs in an image, once, and takes them in the order typed.
// Must not: validate; the runtime does, and names the option.
#include "run_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <type_traits>

#include "command.hpp"
#include "program.hpp"
#include "slipway/base/error.hpp"

namespace slipway::cli {
namespace {

using Kind = runtime::EnvChange::Kind;

/// Split what follows the options: IMAGE [--] [COMMAND...].
void take_image_and_command(const CLI::App& command, runtime::RunOptions& run) {
    const auto words = command.remaining();
    const std::string usage = full_name(command);
    const char* before = command.get_option_no_throw("name") == nullptr ? "" : "NAME ";
    if (words.empty())
        throw Error(ErrorKind::usage, "no image was named")
            .hint(fmt::format("{} {}IMAGE -- COMMAND", usage, before));
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
    sources.emplace(command.get_option_no_throw("--env"), Source{Kind::set, flags.env, "--env"});
    sources.emplace(command.get_option_no_throw("--env-file"),
                    Source{Kind::file, flags.env_files, "--env-file"});
    sources.emplace(command.get_option_no_throw("--unset-env"),
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

/// Declares those options that are among the words typed. An option costs some five microseconds to
/// declare, all of them a tenth of the start of a container.
class Declaration {
 public:
    explicit Declaration(CLI::App& command) : command_(command) {}

    /// Of an option that takes one value the last counts, so that a wrapper's can be replaced.
    template <typename Value>
    void option(const char* names, Value& into, const char* help) const {
        if (!was_typed(names)) return;
        CLI::Option* option = command_.add_option(names, into, help)->allow_extra_args(false);
        if constexpr (std::is_same_v<Value, std::string>)
            option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    template <typename Value>
    void flag(const char* names, Value& into, const char* help) const {
        if (was_typed(names)) command_.add_flag(names, into, help);
    }

 private:
    CLI::App& command_;
};

bool is_given(const CLI::App& command, const char* option) {
    const CLI::Option* declared = command.get_option_no_throw(option);
    return declared != nullptr && declared->count() > 0;
}

void add_mounts(const Declaration& declare, RunFlags& flags) {
    declare.option("-b,--bind,--volume", flags.binds,
                   "SRC[:DST[:OPTIONS]]: show a file or directory of the host");
    declare.option("--data", flags.data,
                   "FILE.sqfs|NAME|docker://REF:DST: show a data pack, served like the image");
    declare.flag("-w,--write", flags.run.write, "let the command change a directory image");
    declare.option("--overlay", flags.overlay,
                   "tmpfs[=SIZE] or DIR: take changes in memory, or keep them in DIR");
    declare.flag("-t,--private-tmp", flags.run.private_tmp, "a /tmp of its own, in memory");
    declare.flag("--home", flags.run.home, "show the home directory");
    declare.flag("!--no-site-mounts", flags.run.site_mounts,
                 "leave out the binds of the mounts.d directories");
    declare.flag("--stage{auto}", flags.stage,
                 "copy image and packs to a local disk first, once per node (=DIR: to this one)");
}

void add_environment(const Declaration& declare, RunFlags& flags) {
    declare.option("-e,--env,--set-env", flags.env, "KEY=VALUE, or KEY for the host's value");
    declare.option("--env-file", flags.env_files, "FILE with lines KEY=VALUE");
    declare.option("--unset-env", flags.unset_env, "GLOB of variables to take out");
    declare.flag("--clean-env", flags.run.clean_env,
                 "nothing of the host's environment but what its launcher needs");
    declare.flag("--keep-env", flags.run.keep_env, "the host's environment as it is");
}

void add_identity(const Declaration& declare, RunFlags& flags) {
    declare.option("--user", flags.user, "NAME|UID[:GROUP|GID] of the image to be inside");
    declare.option("-u,--uid", flags.uid, "user id inside");
    declare.option("-g,--gid", flags.gid, "group id inside");
    declare.flag("--root", flags.run.root, "be root inside (uid and gid 0)");
    declare.flag("--no-passwd", flags.run.keep_accounts,
                 "leave the image's /etc/passwd and /etc/group as they are");
    declare.option("--hostname", flags.hostname, "host name inside");
    declare.flag("--seccomp", flags.run.fake_root_calls,
                 "let privileged system calls succeed without effect");
}

void add_process(const Declaration& declare, RunFlags& flags) {
    declare.option("--entrypoint", flags.entrypoint,
                   "program to run in place of the image's ENTRYPOINT (\"\": none)");
    declare.option("-c,--cd,--workdir", flags.directory, "initial directory inside");
    declare.option("--timeout", flags.timeout,
                   "end the command after DURATION: SIGTERM, ten seconds later SIGKILL");
    declare.flag("--detach-on-kill", flags.run.detach_on_kill,
                 "let the command live on when this program is killed with SIGKILL");
    declare.option("--session", flags.run.session,
                   "NAME or none: share namespaces under a name of your own, or not at all");
    declare.option("--linger", flags.linger,
                   "keep the session for DURATION after its last command, for the next");
    declare.flag("--verify{auto}", flags.verify,
                 "check the image's signature, and every block that is read (=FILE: with this key "
                 "or authority)");
    declare.option("-s,--storage", flags.run.store, "the image store (default: $SLIPWAY_STORE)");
}

void take(const CLI::App& command, const char* option, const std::string& value,
          std::optional<std::string>& into) {
    if (is_given(command, option)) into = value;
}

}  // namespace

void add_run_options(CLI::App& command, RunFlags& flags) {
    command.prefix_command();
    const Declaration declare(command);
    add_mounts(declare, flags);
    add_environment(declare, flags);
    add_identity(declare, flags);
    add_process(declare, flags);
}

runtime::RunOptions take_run_options(const CLI::App& command, RunFlags& flags) {
    runtime::RunOptions& run = flags.run;
    take_image_and_command(command, run);
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
    take(command, "--verify", flags.verify, run.verify);
    runtime::apply_configuration(configuration(), run);
    return run;
}

}  // namespace slipway::cli
