// Users and groups by the image's own /etc/passwd and /etc/group; modes of --chmod.
#pragma once

#include <cstdint>
#include <string>

#include "image_tree.hpp"

namespace slipway::builder {

struct Owner {
    uint32_t uid = 0;
    uint32_t gid = 0;
};

/// Who USER is: name or number, with or without ":group"; "" is root. The group is the user's own,
/// or root where the image does not know the user's number.
/// Throws: Error(not_found) for a name that the image does not have.
struct Account {
    Owner owner;
    std::string home = "/";
};
Account find_account(const ImageTree& tree, const std::string& user);

/// The owner that --chown names; without a group, the group has the user's number.
Owner parse_chown(const ImageTree& tree, const std::string& chown);

/// Apply --chmod, octal or symbolic ("u+x,go-w", "a+rX"), to a mode.
/// Throws: Error(invalid_recipe).
uint32_t apply_chmod(const std::string& chmod, uint32_t mode, bool is_directory);

}  // namespace slipway::builder
