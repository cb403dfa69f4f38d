// What ch-run takes from an image: where it lies, its command, its recorded environment.
// Must not: mount or run it.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "ch_run.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/base/users.hpp"
#include "slipway/image/inside.hpp"

namespace slipway::cli {
namespace {

using runtime::ChEnvChange;
using Kind = image::RunnableImage::Kind;

/// Where ch-image leaves what a Dockerfile said.
constexpr const char* kEnvironmentFile = "/ch/environment";
constexpr const char* kEntrypointFile = "/ch/entrypoint";
constexpr const char* kCmdFile = "/ch/cmd";

std::string storage_directory(const ChRequest& request) {
    if (request.storage) {
        if (!sys::stat_if_exists(AT_FDCWD, *request.storage))
            log::warning("there is no storage directory {}", slipway::quoted(*request.storage));
        return *request.storage;
    }
    if (const char* storage = std::getenv("CH_IMAGE_STORAGE")) return storage;
    return fmt::format("/var/tmp/{}.ch", ch_user_name());
}

/// An image's name as the name of its directory in ch-image's storage.
std::string name_in_storage(std::string name) {
    std::replace(name.begin(), name.end(), '/', '%');
    std::replace(name.begin(), name.end(), ':', '+');
    return name;
}

/// A list of words as ch-image writes it: "angi", then each with its length as four bytes, the
/// highest first.
std::optional<std::vector<std::string>> read_words(const image::ImageInside& inside,
                                                   const std::string& path) {
    constexpr std::string_view kMagic = "angi";
    const auto text = inside.read_file(path);
    if (!text) return std::nullopt;
    const auto damaged = [&] {
        return Error(ErrorKind::invalid_image,
                     fmt::format("{} in the image is no list of words", slipway::quoted(path)));
    };
    if (!text->starts_with(kMagic)) throw damaged();
    std::vector<std::string> words;
    for (size_t at = kMagic.size(); at < text->size();) {
        if (text->size() - at < 4) throw damaged();
        size_t length = 0;
        for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>((*text)[at + i]);
        at += 4;
        if (text->size() - at < length) throw damaged();
        words.push_back(text->substr(at, length));
        at += length;
    }
    return words;
}

/// The image's recorded ENV: ch-image's file, else our own document.
std::vector<ChEnvChange> recorded_environment(const image::RunnableImage& image, char separator,
                                              const std::string& origin) {
    const image::ImageInside inside(image);
    const auto text = inside.read_file(kEnvironmentFile);
    if (text && !inside.is_added(kEnvironmentFile))
        return runtime::split_ch_assignments(*text, separator, kEnvironmentFile);
    std::vector<ChEnvChange> changes;
    for (const auto& entry : image.config.env)
        changes.push_back({ChEnvChange::Kind::literal, entry, origin});
    if (changes.empty() && !text)
        throw Error(ErrorKind::not_found, fmt::format("the image has no {} and no recorded ENV",
                                                      slipway::quoted(kEnvironmentFile)))
            .note("requested by: " + origin);
    return changes;
}

std::vector<ChEnvChange> changes_of(const ChEnvOption& option, const image::RunnableImage& image) {
    if (option.option == ChOption::unset_env)
        return {{ChEnvChange::Kind::unset, option.value.value_or(""), option.origin}};
    const char separator = option.option == ChOption::set_env0 ? '\0' : '\n';
    if (!option.value) return recorded_environment(image, separator, option.origin);
    if (option.value->find('=') != std::string::npos)
        return {{ChEnvChange::Kind::assign, *option.value, option.origin}};
    return runtime::split_ch_assignments(read_file(*option.value), separator, *option.value);
}

std::string home_inside(const ChRequest& request, const image::RunnableImage& image) {
    if (request.home) return "/home/" + ch_user_name();
    return image::ImageInside(image).exists("/root") ? "/root" : "/";
}

}  // namespace

std::string ch_user_name() {
    if (const auto user = find_user(::geteuid())) return user->name;
    const char* name = std::getenv("USER");
    return name != nullptr && *name != '\0' ? name : "user";
}

std::string find_ch_image(const ChRequest& request) {
    const std::string& name = request.run.image;
    if (name.empty() || name[0] == '/' || name[0] == '.') return name;
    const std::string path =
        join_path(absolute_path(storage_directory(request)), "img/" + name_in_storage(name));
    if (!sys::stat_if_exists(AT_FDCWD, path)) return name;
    if (request.run.write)
        throw Error(ErrorKind::conflict, fmt::format("cannot write to {}: it lies in the storage "
                                                     "of ch-image",
                                                     slipway::quoted(name)))
            .note("requested by: --write")
            .hint("take changes in memory with --write-fake");
    return path;
}

std::vector<std::string> ch_command(const ChRequest& request, const image::RunnableImage& image) {
    const auto& typed = request.command;
    if (!typed.empty() && typed[0] != "-") return typed;
    const image::ImageInside inside(image);
    const auto entrypoint = read_words(inside, kEntrypointFile);
    const auto cmd = read_words(inside, kCmdFile);
    const bool recorded = entrypoint || cmd;
    std::vector<std::string> words =
        recorded ? entrypoint.value_or(std::vector<std::string>()) : image.config.entrypoint;
    if (typed.size() > 1) {
        words.insert(words.end(), typed.begin() + 1, typed.end());
    } else {
        const auto more = recorded ? cmd.value_or(std::vector<std::string>()) : image.config.cmd;
        words.insert(words.end(), more.begin(), more.end());
    }
    if (words.empty())
        throw Error(ErrorKind::usage, "there is no command to run")
            .note("the image has neither ENTRYPOINT nor CMD")
            .hint("name a command after the image: ch-run IMAGE -- COMMAND");
    return words;
}

std::vector<std::string> ch_environment(const ChRequest& request,
                                        const image::RunnableImage& image) {
    runtime::ChEnvRequest wanted;
    wanted.expand = request.expand_env;
    wanted.mark = request.join_pid == 0;
    wanted.adjust = wanted.mark && image.kind != Kind::host;
    if (wanted.adjust) wanted.home = home_inside(request, image);
    for (const auto& option : request.env)
        for (auto& change : changes_of(option, image)) wanted.changes.push_back(std::move(change));
    std::vector<std::string> host;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
        host.emplace_back(*entry);
    return runtime::plan_ch_environment(std::move(host), wanted);
}

}  // namespace slipway::cli
