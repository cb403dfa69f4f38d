// A site's rules on what may be run, and the check of one request against them.
// Must not: change the request; what breaks a rule is refused.
#include "policy.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "settings_file.hpp"
#include "site.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/users.hpp"
#include "slipway/runtime/trust.hpp"

namespace slipway::runtime {

namespace {

using List = std::vector<std::string>;

bool contains(const List& list, const std::string& text) {
    return std::find(list.begin(), list.end(), text) != list.end();
}

std::string listed(const List& list) {
    std::string text;
    for (const auto& item : list) text += (text.empty() ? "" : ", ") + item;
    return text.empty() ? "nothing" : text;
}

std::string format_name(image::RefKind kind) {
    switch (kind) {
        case image::RefKind::host:
            return "host";
        case image::RefKind::directory:
            return "directory";
        case image::RefKind::squashfs:
            return "squashfs";
        case image::RefKind::sif:
            return "sif";
        case image::RefKind::oci_layout:
            return "oci";
        case image::RefKind::oci_archive:
            return "oci-archive";
        case image::RefKind::docker_archive:
            return "docker-archive";
        case image::RefKind::tar:
            return "tar";
        case image::RefKind::registry:
            return "docker";
        case image::RefKind::stored:
            return "stored";
        case image::RefKind::archive:
            break;  // make_runnable has found out which kind it is
    }
    return "?";
}

std::optional<List> words_of(const Json& object, const char* key, const std::string& file,
                             const List& allowed) {
    const auto found = object.find(key);
    if (found == object.end()) return std::nullopt;
    if (!found->is_array()) throw setting_error(file, key, "is not a list");
    List words;
    for (const auto& item : *found) {
        const bool uid = allowed.empty() && item.is_number_unsigned();
        if (!uid && (!item.is_string() || item.get<std::string>().empty()))
            throw setting_error(file, key, "holds something that is not a string");
        words.push_back(uid ? std::to_string(item.get<uint64_t>()) : item.get<std::string>());
        if (!allowed.empty() && !contains(allowed, words.back()))
            throw setting_error(file, key, fmt::format("holds {}", slipway::quoted(words.back())))
                .hint("choose among: " + listed(allowed));
    }
    return words;
}

bool lies_below(const std::string& path, const std::string& directory) {
    return path == directory || directory == "/" ||
           (path.starts_with(directory) && path[directory.size()] == '/');
}

Error refusal(const Policy& policy, const std::string& what, const char* rule,
              const std::string& allowed) {
    Error error(ErrorKind::host_forbids, "this site's policy forbids " + what);
    error
        .note(fmt::format("requested by: {} in {}", slipway::quoted(rule),
                          slipway::quoted(policy.file)))
        .note("allowed: " + allowed);
    if (!policy.contact.empty()) error.note("ask: " + policy.contact);
    return error;
}

Error unsigned_refusal(const Policy& policy, const std::string& image, const std::string& why) {
    return refusal(policy, fmt::format("the image {}: {}", slipway::quoted(image), why),
                   "require_signature",
                   fmt::format("images signed with a key of {}",
                               slipway::quoted(site_trust_directory())))
        .hint("use a signed image, or have this one signed (slipway sign) by whom the site trusts");
}

void check_owner(const Policy& policy, const ImageFacts& image) {
    if (!policy.owners) return;
    const List& owners = *policy.owners;
    if (contains(owners, std::to_string(image.owner)) ||
        (!image.owner_name.empty() && contains(owners, image.owner_name)) ||
        (image.own && contains(owners, "self")))
        return;
    const std::string name = image.owner_name.empty()
                                 ? fmt::format("uid {}", image.owner)
                                 : fmt::format("{} (uid {})", image.owner_name, image.owner);
    throw refusal(policy,
                  fmt::format("the image {}: it belongs to {}", slipway::quoted(image.path), name),
                  "owners", "images of " + listed(owners))
        .hint(
            "use an image of one of these owners, or ask the administrator to take this one over");
}

void check_path(const Policy& policy, const ImageFacts& image) {
    if (!policy.paths) return;
    for (const auto& directory : *policy.paths)
        if (lies_below(image.path, directory)) return;
    throw refusal(policy,
                  fmt::format("the image {}: it lies elsewhere", slipway::quoted(image.path)),
                  "paths", "images below " + listed(*policy.paths))
        .hint("use an image below one of these directories");
}

void check_format(const Policy& policy, const ImageFacts& image) {
    if (!policy.formats || contains(*policy.formats, format_name(image.format))) return;
    throw refusal(policy,
                  fmt::format("the image {}: its format is {}", slipway::quoted(image.path),
                              format_name(image.format)),
                  "formats", listed(*policy.formats))
        .hint("convert it: slipway convert SOURCE DESTINATION");
}

void check_write_modes(const Policy& policy, const MountSpec& mounts) {
    if (!policy.write_modes) return;
    const auto check = [&](bool wanted, const char* mode, const char* option) {
        if (wanted && !contains(*policy.write_modes, mode))
            throw refusal(policy, option, "write_modes", listed(*policy.write_modes))
                .hint("run without it: the image is read-only then");
    };
    check(mounts.write, "write", "--write");
    check(mounts.overlay_tmpfs.has_value(), "overlay-tmpfs", "--overlay tmpfs");
    check(mounts.overlay_directory.has_value(), "overlay-directory", "--overlay with a directory");
}

}  // namespace

const std::vector<std::string>& policy_formats() {
    static const List names = {"squashfs",    "directory",      "sif", "stored", "oci",
                               "oci-archive", "docker-archive", "tar", "docker"};
    return names;
}

const std::vector<std::string>& policy_write_modes() {
    static const List names = {"write", "overlay-tmpfs", "overlay-directory"};
    return names;
}

Policy parse_policy(const std::string& text, const std::string& file) {
    const Json object = parse_settings(
        text, file,
        {"owners", "paths", "formats", "write_modes", "require_signature", "contact"});
    Policy policy;
    policy.file = file;
    policy.owners = words_of(object, "owners", file, {});
    policy.paths = words_of(object, "paths", file, {});
    policy.formats = words_of(object, "formats", file, policy_formats());
    policy.write_modes = words_of(object, "write_modes", file, policy_write_modes());
    policy.contact = json_string(object, "contact", slipway::quoted(file), {}, ErrorKind::usage);
    if (const auto found = object.find("require_signature"); found != object.end()) {
        if (!found->is_boolean())
            throw setting_error(file, "require_signature", "is neither true nor false");
        policy.require_signature = found->get<bool>();
    }
    for (const auto& path : policy.paths.value_or(List{}))
        if (!path.starts_with('/'))
            throw setting_error(file, "paths",
                                fmt::format("holds {}, no absolute path", slipway::quoted(path)));
    return policy;
}

std::optional<Policy> load_policy() {
    const std::string file = join_path(site_directory(), "policy.json");
    const auto fd = sys::openat_if_exists(AT_FDCWD, file, O_RDONLY | O_NONBLOCK);
    if (!fd) return std::nullopt;
    Policy policy = parse_policy(read_all(fd->get(), file), file);
    if (!policy.paths) return policy;
    for (auto& path : *policy.paths) {
        char* real = ::realpath(path.c_str(), nullptr);
        path = real != nullptr ? real : lexically_normal(path);
        std::free(real);
    }
    return policy;
}

void check_policy(const Policy& policy, const ImageFacts& image, const RunSpec& spec) {
    if (image.format == image::RefKind::host) return;
    check_format(policy, image);
    check_path(policy, image);
    check_owner(policy, image);
    check_write_modes(policy, spec.mounts);
    if (policy.require_signature && image.seal.empty())
        throw unsigned_refusal(policy, image.path, image.seal_problem);
}

namespace {

std::string whole_text(const Error& error) {
    std::string text = error.message();
    for (const auto& note : error.notes()) text += "; " + note;
    return text;
}

/// Verify the signature with the site's keys alone: a user's own count for his own wishes only.
void look_at_seal(const image::RunnableImage& image, ImageFacts& facts) {
    if (facts.format != image::RefKind::squashfs) {
        facts.seal_problem =
            "only squashfs files and images of layers carry signatures that are checked";
        return;
    }
    try {
        image::TrustedKeys keys;
        keys.add_directory(site_trust_directory());
        const UniqueFd fd = sys::open(image.path, O_RDONLY);
        facts.seal = image::verify_seal(fd.get(), image.path, keys).digest;
    } catch (const Error& error) {
        facts.seal_problem = whole_text(error);
    }
}

}  // namespace

std::optional<image::RunnableImage> find_signed_for_site(const image::ImageRef& ref,
                                                         const std::string& store) {
    using image::RefKind;
    const bool layered = ref.kind == RefKind::stored || ref.kind == RefKind::registry ||
                         ref.kind == RefKind::oci_layout || ref.kind == RefKind::oci_archive ||
                         ref.kind == RefKind::archive;
    if (!layered) return std::nullopt;
    const auto policy = load_policy();
    if (!policy || !policy->require_signature) return std::nullopt;
    image::TrustedKeys keys;
    keys.add_directory(site_trust_directory());
    try {
        return image::make_runnable(ref, store, &keys);
    } catch (const Error& error) {
        const bool unsigned_kind =
            error.kind() == ErrorKind::unsupported && ref.kind == RefKind::archive;
        if (error.kind() != ErrorKind::invalid_image && !unsigned_kind) throw;
        throw unsigned_refusal(*policy, ref.text, whole_text(error));
    }
}

Digest enforce_site_policy(const image::RunnableImage& image, const RunSpec& spec,
                           const Digest& site_seal) {
    if (image.kind == image::RunnableImage::Kind::host) return {};
    const auto policy = load_policy();
    if (!policy) return {};
    const UniqueFd fd = sys::open(image.path, O_PATH);
    const struct stat status = sys::fstat(fd.get(), image.path);
    if (image::identity_of(status) != image.identity)
        throw Error(ErrorKind::conflict,
                    fmt::format("the image {} was replaced while it was looked at",
                                slipway::quoted(image.path)))
            .hint("try again");
    ImageFacts facts;
    facts.format = image.format;
    facts.path = sys::readlinkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", fd.get()));
    facts.owner = status.st_uid;
    facts.own = status.st_uid == ::geteuid();
    if (const auto user = find_user(status.st_uid)) facts.owner_name = user->name;
    facts.seal = site_seal;
    if (policy->require_signature && site_seal.empty()) look_at_seal(image, facts);
    check_policy(*policy, facts, spec);
    if (!image.seal.empty() && !facts.seal.empty() && image.seal != facts.seal)
        throw Error(ErrorKind::conflict,
                    fmt::format("the image {} was replaced while it was looked at",
                                slipway::quoted(image.path)))
            .hint("try again");
    return facts.seal;
}

}  // namespace slipway::runtime
