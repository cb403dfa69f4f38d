// The configuration of an Apptainer image, from the files that Apptainer keeps in it.
// Must not: run anything of the image, or guess what its shell code would do.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "sif.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/text.hpp"
#include "slipway/image/squashfs.hpp"

namespace slipway::image {
namespace {

constexpr const char* kRunscript = "/.singularity.d/runscript";

// Of the environment files these are the image's own; the others are the same in every
// image and set what Apptainer itself needs. Source: apptainer, internal/pkg/build/files.
constexpr const char* kEnvironmentFiles[] = {".singularity.d/env/10-docker.sh",
                                             ".singularity.d/env/10-docker2singularity.sh",
                                             ".singularity.d/env/90-environment.sh"};

std::string_view trim(std::string_view text) {
    const size_t first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool is_name(std::string_view text) {
    return !text.empty() && !(text[0] >= '0' && text[0] <= '9') &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c >= '0' && c <= '9');
           });
}

/// The contents of one double-quoted word, its escapes undone; std::nullopt if the shell would
/// replace something in it.
std::optional<std::string> unescape(std::string_view text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '$' || c == '`' || c == '"') return std::nullopt;
        if (c != '\\') {
            plain += c;
            continue;
        }
        if (++i == text.size()) return std::nullopt;
        if (std::string_view("$`\"\\").find(text[i]) == std::string_view::npos) plain += '\\';
        plain += text[i];
    }
    return plain;
}

/// The value of a word that the shell would take as it is.
std::optional<std::string> plain_value(std::string_view name, std::string_view word) {
    if (word.size() >= 2 && word.front() == '\'' && word.back() == '\'') {
        word = word.substr(1, word.size() - 2);
        if (word.find('\'') != std::string_view::npos) return std::nullopt;
        return std::string(word);
    }
    if (word.size() >= 2 && word.front() == '"' && word.back() == '"') {
        word = word.substr(1, word.size() - 2);
        // "${NAME:-"VALUE"}", as Apptainer writes an OCI image's variables.
        const std::string head = fmt::format("${{{}:-\"", name);
        if (word.starts_with(head) && word.ends_with("\"}"))
            return unescape(word.substr(head.size(), word.size() - head.size() - 2));
        return unescape(word);
    }
    if (word.find_first_of(" \t'\"\\$`;&|<>()*?[]#~!{}") != std::string_view::npos)
        return std::nullopt;
    return std::string(word);
}

/// "K=V" of a line that exports it plainly.
std::optional<std::string> plain_export(std::string_view line) {
    if (!line.starts_with("export ")) return std::nullopt;
    line = trim(line.substr(7));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || !is_name(line.substr(0, equals))) return std::nullopt;
    const auto name = line.substr(0, equals);
    const auto value = plain_value(name, line.substr(equals + 1));
    if (!value) return std::nullopt;
    return fmt::format("{}={}", name, *value);
}

/// How a line changes the depth of compound commands.
int nesting_of(std::string_view line) {
    const std::string_view word = line.substr(0, line.find_first_of(" \t;"));
    int depth = 0;
    for (const char* begin : {"if", "for", "while", "until", "case"})
        if (word == begin) ++depth;
    for (const char* end : {"fi", "done", "esac", "}", ")"})
        if (word == end) --depth;
    if (line.ends_with("{") || line.ends_with("(")) ++depth;
    for (const char* end : {"; fi", "; done", ";; esac", " esac", " }"})
        if (line.size() > word.size() && line.ends_with(end)) --depth;
    return depth;
}

void read_labels(const std::string& text, const std::string& subject, ImageConfig& config) {
    const Json labels = parse_json(text, subject);
    if (!labels.is_object()) return;
    for (const auto& [key, value] : labels.items())
        config.labels[key] = value.is_string() ? value.get<std::string>() : to_text(value);
}

}  // namespace

std::vector<std::string> plain_exports(const std::string& script, size_t& left_out) {
    std::vector<std::string> found;
    int depth = 0;
    for (const std::string& whole : split(script, '\n')) {
        const std::string_view line = trim(whole);
        if (line.empty() || line[0] == '#') continue;
        const int before = depth;
        depth = std::max(0, depth + nesting_of(line));
        std::optional<std::string> setting;
        if (before == 0 && depth == 0) setting = plain_export(line);
        if (setting)
            found.push_back(*setting);
        else
            ++left_out;
    }
    return found;
}

ImageConfig read_sif_config(const SquashfsImage& image, const SifRoot& root,
                            const std::string& subject, std::vector<std::string>& warnings) {
    if (auto own = image.config()) return std::move(*own);
    ImageConfig config;
    if (!root.architecture.empty()) config.architecture = root.architecture;
    for (const char* path : kEnvironmentFiles) {
        const auto script = image.read_file(path);
        if (!script) continue;
        size_t left_out = 0;
        for (const std::string& setting : plain_exports(*script, left_out)) {
            const size_t equals = setting.find('=');
            config.set_env(setting.substr(0, equals), setting.substr(equals + 1));
        }
        if (left_out > 0) {
            warnings.push_back(fmt::format(
                "/{} in {} holds shell code, which is not run: what {} would set is missing", path,
                subject,
                left_out == 1 ? "one line of it" : fmt::format("{} lines of it", left_out)));
        }
    }
    if (const auto script = image.read_file(kRunscript); script && !script->empty())
        config.cmd = {kRunscript};  // a COMMAND takes its place, as "apptainer exec" has it
    if (const auto labels = image.read_file(".singularity.d/labels.json"))
        read_labels(*labels, fmt::format("labels.json in {}", subject), config);
    return config;
}

}  // namespace slipway::image
