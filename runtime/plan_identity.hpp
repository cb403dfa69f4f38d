// Who the command is inside: ids, name, home; and the files that tell programs so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host_facts.hpp"
#include "run_spec.hpp"
#include "slipway/image/convert.hpp"

namespace slipway::runtime {

/// /etc/passwd and /etc/group of an image; "" for what it lacks.
struct ImageAccounts {
    std::string passwd, group;
};

/// The user that counts and is to be looked up in the image, if any: --user, or a USER of the image
/// that is not root. The image's does not count for a rank of a launcher, whose PMIx or Slurm
/// compares ids.
std::optional<UserRequest> user_to_look_up(const RunSpec& spec, const Launcher& launcher,
                                           const image::ImageConfig& config);
/// Read the image's files. Throws: SysError, Error(invalid_image).
ImageAccounts read_image_accounts(const image::RunnableImage& image);

/// One user and group inside; the caller, whatever the number is.
struct PlannedIdentity {
    uint32_t uid = 0, gid = 0;
    bool own = true;        ///< the caller under its own user id
    bool own_group = true;  ///< and its own group id
    std::string name;       ///< "": not known without the image's passwd
    std::string group;      ///< the same
    std::string home;       ///< of another user than the caller; "": the caller's
    std::string shell;      ///< of the caller; /bin/sh where the image lacks it
    std::string reason;
};
/// Decide who the command is; pure. `accounts` are the image's if user_to_look_up() names somebody.
/// Throws: Error(not_found) for a user or group that the image does not know.
PlannedIdentity plan_identity(const RunSpec& spec, const HostFacts& facts,
                              const image::ImageConfig& config, const ImageAccounts& accounts);

/// /etc/passwd and /etc/group, and with a host name of its own /etc/hostname and /etc/hosts; pure.
/// `home` is the user's inside.
std::vector<MountStep> plan_identity_files(const RunSpec& spec, const HostFacts& facts,
                                           const PlannedIdentity& identity,
                                           const std::string& home);

}  // namespace slipway::runtime
