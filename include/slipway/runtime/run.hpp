// Running a command in an image: request -> specification -> plan -> process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slipway/base/json.hpp"
#include "slipway/base/process.hpp"
#include "slipway/image/convert.hpp"

namespace slipway::runtime {

/// A value as typed, and where: "--bind, argument 2".
struct Typed {
    std::string text;
    std::string origin;
};

/// `slipway run`, as typed.
struct RunOptions {
    std::string image;
    std::vector<std::string> command;      ///< empty: the image's ENTRYPOINT and CMD
    std::vector<Typed> binds;              ///< SRC[:DST[:OPTIONS]], options ro, rw, optional
    std::vector<Typed> env;                ///< --set-env KEY=VALUE, in order
    std::optional<std::string> directory;  ///< --cd
    bool write = false;                    ///< --write: a directory image read-write
    std::string session;                   ///< --session=NAME|none; "": found from the launcher
    std::string store;                     ///< --storage
};

struct MountStep {
    enum class Kind {
        image_directory,
        image_squashfs,
        overlay,
        bind,
        tmpfs,
        proc,
        sysfs_bind,
        file
    } kind = Kind::bind;
    enum class IfMissing { fail, skip, create } if_missing = IfMissing::fail;
    std::string source;
    std::string destination;  ///< inside, absolute
    bool read_only = false;
    bool recursive = true;
    std::string options;  ///< tmpfs and overlay options
    std::string content;  ///< of a generated file
    /// A generated file of passwd(5) or group(5): the image's own entries stay, `content` is put
    /// among them, and the lines of `fallback` are added for names and ids that the image lacks.
    bool merge = false;
    std::string fallback;
    std::string origin;   ///< "default", "--bind, argument 2"
};

/// What will be done, decided; pure data. The executor decides nothing.
struct RunPlan {
    uint32_t uid_inside = 0, gid_inside = 0;
    uint32_t uid_outside = 0, gid_outside = 0;
    std::vector<std::string> namespaces;   ///< "user", "mount"
    std::string session_key;               ///< "" = none
    std::vector<MountStep> mounts;         ///< in order; the first gives the root
    std::vector<std::string> environment;  ///< "K=V", sorted
    std::string working_directory;
    bool fake_root_calls = false;  ///< the seccomp filter of root emulation
    std::vector<std::string> argv;
};

/// The plan as JSON, for --dry-run and golden tests.
Json to_json(const RunPlan& plan);

/// Plan a run without doing it (reads the image's config; makes a stored image's squashfs if
/// needed).
RunPlan plan(const RunOptions& options);
/// Run to the end; the command's own exit status. Throws before the command starts only.
int run(const RunOptions& options);

}  // namespace slipway::runtime
