// Running a command in an image: request -> specification -> plan -> process.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipway/base/json.hpp"
#include "slipway/base/process.hpp"
#include "slipway/image/convert.hpp"
#include "slipway/runtime/explain.hpp"

namespace slipway::runtime {

/// A value as typed, and where: "--bind, argument 2".
struct Typed {
    std::string text;
    std::string origin;
};

/// One change to the environment; they apply in the order in which they were typed.
struct EnvChange {
    enum class Kind {
        set,   ///< KEY=VALUE, or KEY for the host's value
        file,  ///< a file of such lines
        unset  ///< a glob (fnmatch with extended globs) of names
    } kind = Kind::set;
    Typed typed;
};

/// `slipway run`, as typed.
struct RunOptions {
    std::string image;
    std::vector<std::string> command;       ///< empty: the image's CMD
    std::optional<std::string> entrypoint;  ///< --entrypoint, "" for none; absent: the image's
    std::vector<Typed> binds;               ///< SRC[:DST[:OPTIONS]]
    std::vector<Typed> data;                ///< --data FILE.sqfs:DST, served like the image
    std::vector<EnvChange> env;             ///< --env, --env-file, --unset-env
    bool clean_env = false;                 ///< nothing of the host but what a launcher needs
    bool keep_env = false;                  ///< everything of the host
    /// "K=V": the whole environment, taken as it is; nothing else is said of it then (the ch-run
    /// front)
    std::optional<std::vector<std::string>> exact_env;
    bool shell = false;      ///< `slipway shell`: COMMAND are arguments of a shell of the image
    bool login = false;      ///< a login shell
    bool only_plan = false;  ///< nothing will be run: a missing command is no error
    bool replace_entrypoint = false;  ///< COMMAND takes the place of ENTRYPOINT and CMD (ch-run)
    bool ignore_image_user = false;   ///< the image's USER does not count (ch-run)
    bool export_directory = false;    ///< PWD is the directory in which the command starts (ch-run)
    std::optional<std::string> directory;  ///< --cd
    bool write = false;                    ///< --write: a directory image read-write
    std::optional<std::string> overlay;    ///< --overlay: "tmpfs[=SIZE]" or a directory
    bool private_tmp = false;              ///< --private-tmp: a tmpfs on /tmp
    bool home = false;                     ///< --home: the home directory, at its own path
    bool keep_accounts = false;           ///< --no-passwd: the image's passwd and group as they are
    bool root = false;                    ///< --root: uid and gid 0 inside
    std::optional<std::string> user;      ///< --user NAME|UID[:GROUP|GID]
    std::optional<std::string> uid;       ///< --uid
    std::optional<std::string> gid;       ///< --gid
    std::optional<std::string> hostname;  ///< --hostname, in a UTS namespace of its own
    bool fake_root_calls = false;         ///< --seccomp: privileged calls succeed without effect
    std::string session;                  ///< --session=NAME|none; "": found from the launcher
    std::optional<std::string> linger;    ///< --linger=SECONDS the session outlives its last member
    std::optional<std::string> timeout;   ///< --timeout=DURATION, then SIGTERM, then SIGKILL
    bool detach_on_kill = false;          ///< the command outlives a SIGKILL of `slipway run`
    /// Of the container: before its first command, ldconfig puts their libraries in the loader's
    /// cache (the ch-run front).
    std::vector<std::string> library_directories;
    std::optional<std::string> stage;   ///< --stage[=DIR]; "auto": a local disk
    bool site_mounts = true;            ///< the binds of the mounts.d directories
    std::string store;                  ///< --storage
    std::optional<std::string> verify;  ///< --verify[=FILE]; "auto": the keys of trust.d
};

struct MountStep {
    enum class Kind {
        image_directory,
        image_squashfs,
        data_squashfs,
        overlay,
        bind,
        tmpfs,
        directory,
        file
    } kind = Kind::bind;
    enum class IfMissing { fail, skip, create } if_missing = IfMissing::fail;
    std::string source;
    uint64_t image_offset_bytes = 0;  ///< of an image: where in `source` the squashfs begins (SIF)
    std::string destination;          ///< inside, absolute
    bool read_only = false;
    bool recursive = true;
    bool no_exec = false, no_suid = false, no_devices = false;
    bool make_source = false;  ///< make the source directory on the host if it is missing
    std::string identity;      ///< of a data pack: changes with the file
    std::string seal;          ///< of a verified image or pack: every block is checked against it
    std::string options;       ///< tmpfs and overlay options
    std::string content;       ///< of a generated file
    /// A generated file of passwd(5) or group(5): the image's own entries stay, `content` is put
    /// among them, and the lines of `fallback` are added for names and ids that the image lacks.
    bool merge = false;
    std::string fallback;
    std::string origin;  ///< "default", "--bind, argument 2"
};

/// A file that is copied to a local disk before anything is mounted.
struct StageStep {
    std::string source;
    std::string target;  ///< its name says which state of the source it is a copy of
    uint64_t size_bytes = 0;
    std::string origin;  ///< why it goes there: "--stage, $SLURM_TMPDIR"
};

/// What will be done, decided; pure data. The executor decides nothing.
struct RunPlan {
    uint32_t uid_inside = 0, gid_inside = 0;
    uint32_t uid_outside = 0, gid_outside = 0;
    std::vector<std::string> namespaces;  ///< "user", "mount"
    std::string session_key;              ///< "" = none
    std::string session_identity;         ///< what a session of that key is made of, line by line
    std::string session_name;             ///< of --session; "" = the launcher's
    std::string image_identity;           ///< the image file or directory, in its state
    /// Keep the store from deleting the image and the packs.
    std::vector<std::shared_ptr<const UniqueFd>> holds;
    /// The squashfs file of the first mount, where it is open already: what was decided about is
    /// what is served.
    std::shared_ptr<const image::SquashfsImage> image_file;
    uint64_t linger_ms = 0;                ///< how long the session outlives its last member
    std::vector<StageStep> stages;         ///< before the mounts
    std::vector<MountStep> mounts;         ///< in order; the first gives the root
    std::vector<std::string> environment;  ///< "K=V", sorted
    std::string working_directory;
    bool export_directory = false;  ///< PWD is set to it, links resolved
    bool fake_root_calls = false;   ///< the seccomp filter of root emulation
    std::string hostname;           ///< "" = the host's
    std::vector<std::string> argv;
    /// Of a shell: the first of these that the image has takes argv[0]'s place and becomes SHELL.
    std::vector<std::string> shells;
    uint64_t timeout_ms = 0;                       ///< 0 = none
    std::vector<std::string> library_directories;  ///< for ldconfig, once per container
    bool detach_on_kill = false;
    std::vector<std::string> warnings;  ///< what was asked for and is not done
    PlanReasons reasons;                ///< why it is so; nothing is done with them
};

/// What the plan's JSON calls a kind of mount: "bind", "image-squashfs".
const char* name_of(MountStep::Kind kind);
/// The plan as JSON, for --dry-run and golden tests.
Json to_json(const RunPlan& plan);

/// Plan a run without doing it (reads the image's config; makes a stored image's squashfs if
/// needed).
RunPlan plan(const RunOptions& options);
/// Run to the end; the command's own exit status. Throws before the command starts only.
int run(const RunOptions& options);

}  // namespace slipway::runtime
