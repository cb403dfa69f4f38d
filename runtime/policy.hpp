// A site's rules on what may be run: parsed from policy.json, checked once per plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "run_spec.hpp"
#include "slipway/image/convert.hpp"
#include "slipway/image/reference.hpp"

namespace slipway::runtime {

/// Rules that are absent allow everything.
struct Policy {
    std::string file;                                     ///< for messages
    std::optional<std::vector<std::string>> owners;       ///< names, uids, or "self"
    std::optional<std::vector<std::string>> paths;        ///< directories with what lies below them
    std::optional<std::vector<std::string>> formats;      ///< of policy_formats()
    std::optional<std::vector<std::string>> write_modes;  ///< of policy_write_modes()
    bool require_signature = false;
    std::string contact;  ///< whom to ask, told with every refusal
};

/// What the rules look at; taken from one open descriptor of what will be mounted.
struct ImageFacts {
    image::RefKind format = image::RefKind::directory;
    std::string path;          ///< absolute, no links on the way
    uint32_t owner = 0;        ///< of the file or directory
    std::string owner_name;    ///< "" when the host does not know it
    bool own = false;          ///< the owner is the caller
    Digest seal;               ///< whose signature by a key of the site was verified
    std::string seal_problem;  ///< why there is none
};

const std::vector<std::string>& policy_formats();
const std::vector<std::string>& policy_write_modes();

/// Understand a policy; pure. Throws: Error(usage) naming file and key: a rule that is not
/// understood is never passed over.
Policy parse_policy(const std::string& text, const std::string& file);
/// The site's policy, if there is one, its paths with their links followed.
std::optional<Policy> load_policy();

/// Throws: Error(host_forbids) naming the file, the rule and what is allowed; pure.
void check_policy(const Policy& policy, const ImageFacts& image, const RunSpec& spec);

/// The runnable form of an image of layers where the site requires signatures: signed by whom the
/// site trusts, and sealed. std::nullopt where none is required, and for images of other formats.
/// Throws: Error(host_forbids) saying what is wrong with its signatures.
std::optional<image::RunnableImage> find_signed_for_site(const image::ImageRef& ref,
                                                         const std::string& store);

/// Look at the image and check it against the site's policy. The host itself is no image.
/// `site_seal`: of what find_signed_for_site found. Returns the seal that a required signature is
/// of, empty where none is required: the image must be read against it. Throws:
/// Error(host_forbids); Error(conflict) when the image changed since it was found, or is not the
/// one that was verified at the user's wish.
Digest enforce_site_policy(const image::RunnableImage& image, const RunSpec& spec,
                           const Digest& site_seal = {});

}  // namespace slipway::runtime
