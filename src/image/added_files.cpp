// Words the files that Slipway adds to an image, and finds them again.
// Must not: write to an image, or add what the image has itself.
#include "added_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/image/dataset.hpp"

namespace slipway::image {
namespace {

constexpr const char* kChEnvironment = "ch/environment";
constexpr const char* kApptainer = ".singularity.d";

Entry entry_of(EntryType type, const std::string& path, uint32_t mode) {
    Entry entry;
    entry.type = type;
    entry.path = path;
    entry.mode = mode;
    return entry;
}

AddedFile directory(const std::string& path) {
    return {entry_of(EntryType::directory, path, 0755), {}};
}

AddedFile file(const std::string& path, std::string content, uint32_t mode = 0644) {
    Entry entry = entry_of(EntryType::file, path, mode);
    entry.size_bytes = content.size();
    return {std::move(entry), std::move(content)};
}

AddedFile link(const std::string& path, const std::string& target) {
    Entry entry = entry_of(EntryType::symlink, path, 0777);
    entry.link_target = target;
    return {std::move(entry), {}};
}

std::pair<std::string, std::string> name_and_value(const std::string& line) {
    const size_t equals = line.find('=');
    return {line.substr(0, equals), line.substr(equals + 1)};
}

/// ch-run replaces the items of a colon list that begin with "$", and a line ends at its newline:
/// such a value cannot be said. Source: ch-run(1), "Environment variables".
bool ch_run_can_hold(const std::string& value) {
    return value.find('\n') == std::string::npos && !value.starts_with('$') &&
           value.find(":$") == std::string::npos;
}

std::string ch_environment(const ImageConfig& config) {
    std::string text;
    for (const std::string& line : config.env) {
        const auto [name, value] = name_and_value(line);
        if (!ch_run_can_hold(value)) continue;
        const bool quoted = value.size() >= 2 && value.front() == '\'' && value.back() == '\'';
        text +=
            quoted ? fmt::format("{}='{}'\n", name, value) : fmt::format("{}={}\n", name, value);
    }
    return text;
}

bool is_shell_name(const std::string& name) {
    const auto is_letter = [](char c) {
        return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    return !name.empty() && is_letter(name[0]) &&
           std::all_of(name.begin(), name.end(),
                       [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

std::string in_double_quotes(const std::string& value) {
    std::string text;
    for (const char c : value) {
        if (c == '"' || c == '\\' || c == '$' || c == '`') text += '\\';
        text += c;
    }
    return text;
}

std::string in_single_quotes(const std::string& value) {
    std::string text = "'";
    for (const char c : value) {
        if (c == '\'')
            text += "'\\''";
        else
            text += c;
    }
    return text + "'";
}

/// The image's variables, as Apptainer writes those of an OCI image: a variable that the user set
/// already stays, but for PATH. Source: apptainer,
/// internal/pkg/build/sources/conveyorPacker_oci.go.
std::string apptainer_environment(const ImageConfig& config) {
    std::string text = "#!/bin/sh\n# Written by Slipway: the image's ENV.\n";
    for (const std::string& line : config.env) {
        const auto [name, value] = name_and_value(line);
        if (!is_shell_name(name)) continue;
        const std::string word = in_double_quotes(value);
        text += name == "PATH" ? fmt::format("export PATH=\"{}\"\n", word)
                               : fmt::format("export {0}=\"${{{0}:-\"{1}\"}}\"\n", name, word);
    }
    return text;
}

std::string words_of(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += " " + in_single_quotes(word);
    return text;
}

/// Arguments take the place of CMD and follow ENTRYPOINT, as with "slipway run".
std::string runscript(const ImageConfig& config) {
    std::vector<std::string> cmd = config.cmd;
    if (cmd.empty() && config.entrypoint.empty()) cmd = {"/bin/sh"};
    std::string text = "#!/bin/sh\n# Written by Slipway: the image's ENTRYPOINT and CMD.\n";
    if (!cmd.empty()) text += fmt::format("[ $# -gt 0 ] || set --{}\n", words_of(cmd));
    return text + fmt::format("exec{} \"$@\"\n", words_of(config.entrypoint));
}

void add_for_apptainer(const ImageConfig& config, const LookUp& look_up,
                       std::vector<AddedFile>& files) {
    if (look_up(kApptainer) != There::nothing) return;
    const auto below = [](const char* name) { return join_path(kApptainer, name); };
    files.push_back(directory(kApptainer));
    files.push_back(directory(below("env")));
    files.push_back(
        file(below("env/10-docker2singularity.sh"), apptainer_environment(config), 0755));
    // Apptainer sets what its user asked for (--env) when it comes to a file of this name.
    files.push_back(file(below("env/99-base.sh"), "#!/bin/sh\n# Written by Slipway.\n", 0755));
    files.push_back(file(below("labels.json"), to_text(Json(config.labels), 2) + "\n"));
    files.push_back(file(below("runscript"), runscript(config), 0755));
    if (look_up("singularity") == There::nothing)
        files.push_back(link("singularity", below("runscript")));
}

void add_for_ch_run(const ImageConfig& config, const LookUp& look_up,
                    std::vector<AddedFile>& files) {
    const There parent = look_up("ch");
    if (parent == There::other || look_up(kChEnvironment) != There::nothing) return;
    if (parent == There::nothing) files.push_back(directory("ch"));
    files.push_back(file(kChEnvironment, ch_environment(config)));
}

/// What is compared to find a file again: its contents, or a link's target.
std::string mark_of(const std::string& content) { return sha256(content).text(); }

Json listed(const std::vector<AddedFile>& files) {
    Json list = Json::array();
    for (const AddedFile& added : files) {
        Json item{{"path", added.entry.path}};
        if (added.entry.type == EntryType::file) item["digest"] = mark_of(added.content);
        if (added.entry.type == EntryType::symlink)
            item["digest"] = mark_of(added.entry.link_target);
        list.push_back(std::move(item));
    }
    return list;
}

class AddedSource : public EntrySource {
 public:
    explicit AddedSource(std::vector<AddedFile> files) : files_(std::move(files)) {}
    bool next(Entry& entry) override {
        if (next_ == files_.size()) return false;
        entry = files_[next_++].entry;
        position_ = 0;
        return true;
    }
    size_t read(void* data, size_t size_bytes) override {
        if (next_ == 0) return 0;
        const std::string& content = files_[next_ - 1].content;
        const size_t part = std::min(size_bytes, content.size() - position_);
        std::memcpy(data, content.data() + position_, part);
        position_ += part;
        return part;
    }

 private:
    std::vector<AddedFile> files_;
    size_t next_ = 0, position_ = 0;
};

/// What a document lists: directories and files to leave out, links with their targets' marks.
struct Listed {
    std::set<std::string> paths;
    std::map<std::string, std::string> links;
};

class Without : public EntrySource {
 public:
    Without(std::unique_ptr<EntrySource> source, Listed listed)
        : source_(std::move(source)), listed_(std::move(listed)) {}
    bool next(Entry& entry) override {
        while (source_->next(entry))
            if (!is_ours(entry)) return true;
        return false;
    }
    size_t read(void* data, size_t size_bytes) override { return source_->read(data, size_bytes); }

 private:
    bool is_ours(const Entry& entry) const {
        if (entry.type != EntryType::symlink) return listed_.paths.contains(entry.path);
        const auto link = listed_.links.find(entry.path);
        return link != listed_.links.end() && link->second == mark_of(entry.link_target);
    }

    std::unique_ptr<EntrySource> source_;
    Listed listed_;
};

/// The listed paths that are still as they were written. A document that is not ours lists nothing.
Listed still_ours(const std::string& document, const ReadSmall& read_small) {
    Listed listed;
    const Json json = parse_json(document, kConfigPathInImage);
    const auto ours = json.find(kOwnMember);
    if (ours == json.end() || !ours->is_object() || !ours->contains("files")) return listed;
    for (const Json& item : (*ours)["files"]) {
        if (!item.is_object()) continue;
        const std::string path = json_string(item, "path", kConfigPathInImage);
        const std::string digest = json_string(item, "digest", kConfigPathInImage);
        const auto content = digest.empty() ? std::nullopt : read_small(path);
        if (digest.empty() || (content && mark_of(*content) == digest))
            listed.paths.insert(path);
        else if (!content)
            listed.links[path] = digest;
    }
    return listed;
}

}  // namespace

std::vector<AddedFile> plan_added_files(const ImageConfig& config, const std::string& source,
                                        const LookUp& look_up) {
    std::vector<AddedFile> others;
    if (look_up(kPackDescriptionPath) == There::nothing) {  // nobody runs a command in a data pack
        add_for_apptainer(config, look_up, others);
        add_for_ch_run(config, look_up, others);
    }

    Json document = config_to_json(config);
    document[kOwnMember] = {{"version", SLIPWAY_VERSION}, {"files", listed(others)}};
    if (!source.empty()) document[kOwnMember]["source"] = source;
    std::vector<AddedFile> files{directory(std::string(parent_path(kConfigPathInImage))),
                                 file(kConfigPathInImage, to_text(document, 2) + "\n")};
    std::move(others.begin(), others.end(), std::back_inserter(files));
    return files;
}

std::unique_ptr<EntrySource> stream_added_files(std::vector<AddedFile> files) {
    return std::make_unique<AddedSource>(std::move(files));
}

bool is_added_file(const std::string& path, const std::string& document,
                   const ReadSmall& read_small) {
    return !document.empty() && still_ours(document, read_small).paths.contains(path);
}

std::unique_ptr<EntrySource> without_added_files(std::unique_ptr<EntrySource> source,
                                                 const std::string& document,
                                                 const ReadSmall& read_small) {
    Listed listed;
    if (!document.empty()) listed = still_ours(document, read_small);
    listed.paths.insert(kConfigPathInImage);
    listed.paths.insert(std::string(parent_path(kConfigPathInImage)));
    return std::make_unique<Without>(std::move(source), std::move(listed));
}

}  // namespace slipway::image
