// What one COPY or ADD takes.
// Must not: write anything.
#include "copy_items.hpp"

#include <fmt/format.h>

#include "ignore.hpp"
#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/path.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

using image::EntryType;

class Collector {
 public:
    Collector(const FileTree& tree, const CopyAction& action, bool tree_is_context)
        : tree_(tree),
          action_(action),
          context_(tree_is_context),
          exclude_(action.exclude, "--exclude") {}

    std::vector<CopyItem> run() {
        for (const std::string& source : action_.sources) add_source(source);
        for (const InlineFile& file : action_.inline_files) {
            CopyItem item;
            item.target = file.name;
            item.entry.mode = 0644;
            item.entry.size_bytes = file.content.size();
            item.top = item.is_name = true;
            item.inline_file = &file;
            items_.push_back(std::move(item));
        }
        return std::move(items_);
    }

 private:
    void add_source(const std::string& source) {
        // --parents: what stands before "/./" is not kept.
        std::string base, rest = source;
        const size_t pivot = source.find("/./");
        if (action_.parents && pivot != std::string::npos) {
            base = clean(source.substr(0, pivot), source);
            rest = source.substr(pivot + 3);
        }
        const std::string kept = clean(rest, source);
        const std::string path = member_join(base, kept);
        const size_t before = items_.size();
        if (has_wildcard(path)) {
            match(path, "", source);
            if (items_.size() == before)
                throw Error(ErrorKind::not_found,
                            fmt::format("nothing matches {}", slipway::quoted(source)));
            return;
        }
        add_top(path, base, source);
    }

    /// A clean path; a source that climbs out of the context is refused.
    std::string clean(const std::string& path, const std::string& source) const {
        int depth = 0;
        for (const std::string& part : split(path, '/')) {
            if (part.empty() || part == ".") continue;
            depth += part == ".." ? -1 : 1;
            if (depth < 0 && context_)
                throw Error(ErrorKind::unsafe_path, fmt::format("{} lies outside the build context",
                                                                slipway::quoted(source)))
                    .hint(
                        "copy it into the context, or build with a directory further up as the "
                        "context and -f for the Dockerfile");
        }
        return lexically_normal("/" + path).substr(1);
    }

    /// Expand wildcards one path component after another.
    void match(const std::string& pattern, const std::string& directory,
               const std::string& source) {
        const size_t depth = directory.empty() ? 0 : split(directory, '/').size();
        const auto parts = split(pattern, '/');
        const auto entry = tree_.find(directory);
        if (!entry || entry->type != EntryType::directory) return;
        for (const std::string& name : tree_.names(directory)) {
            if (!match_wildcard(parts[depth], name)) continue;
            const std::string path = member_join(directory, name);
            if (depth + 1 < parts.size())
                match(pattern, path, source);
            else if (!is_excluded(path, name))
                add_top(path, "", source);
        }
    }

    [[noreturn]] void not_found(const std::string& source, const std::string& path) const {
        Error error(ErrorKind::not_found,
                    fmt::format("{} is not in the {}", slipway::quoted(source),
                                context_ ? "build context" : "source image"));
        const auto link = tree_.find(path);
        if (link && link->type == EntryType::symlink)
            error.note(
                fmt::format("it is a symbolic link to {}; links are followed inside the {} "
                            "only",
                            slipway::quoted(link->link_target), context_ ? "context" : "image"));
        else if (context_)
            error.note(".dockerignore may leave it out, if there is one");
        throw error;
    }

    void add_top(const std::string& path, const std::string& base, const std::string& source) {
        const std::string found =
            resolve_links([this](const std::string& p) { return tree_.find(p); }, path, true);
        const auto entry = tree_.find(found);
        if (!entry || (tree_.only_for_contents(found) && entry->type != EntryType::directory))
            not_found(source, path);
        std::string target;
        if (action_.parents)
            target = base.empty() ? path : path.substr(std::min(path.size(), base.size() + 1));
        CopyItem item{found, target, *entry, true, false, nullptr};
        if (entry->type == EntryType::directory) {
            const size_t before = items_.size();
            items_.push_back(item);
            walk(found, "", target);
            if (tree_.only_for_contents(found) && items_.size() == before + 1)
                not_found(source, path);
            return;
        }
        if (is_excluded(found, std::string(base_name(path)))) return;
        item.is_name = !action_.parents;
        if (!action_.parents) item.target = std::string(base_name(path));
        items_.push_back(std::move(item));
    }

    void walk(const std::string& directory, const std::string& relative,
              const std::string& target) {
        for (const std::string& name : tree_.names(directory)) {
            const std::string path = member_join(directory, name);
            const std::string below = member_join(relative, name);
            const auto entry = tree_.find(path);
            if (!entry || entry->type == EntryType::socket) continue;
            const bool excluded = is_excluded(path, below);
            if (entry->type != EntryType::directory) {
                if (!excluded)
                    items_.push_back(
                        {path, member_join(target, name), *entry, false, false, nullptr});
                continue;
            }
            if (excluded && !exclude_.may_take_back_below(below)) continue;
            const size_t before = items_.size();
            items_.push_back({path, member_join(target, name), *entry, false, false, nullptr});
            walk(path, below, member_join(target, name));
            const bool passage = excluded || tree_.only_for_contents(path);
            if (passage && items_.size() == before + 1) items_.pop_back();
        }
    }

    bool is_excluded(const std::string& path, const std::string& relative) const {
        return exclude_.matches(relative) || (relative != path && exclude_.matches(path));
    }

    const FileTree& tree_;
    const CopyAction& action_;
    bool context_;
    IgnorePatterns exclude_;
    std::vector<CopyItem> items_;
};

}  // namespace

std::vector<CopyItem> collect_items(const FileTree& tree, const CopyAction& action,
                                    bool tree_is_context) {
    return Collector(tree, action, tree_is_context).run();
}

std::string items_digest(const FileTree& tree, const std::vector<CopyItem>& items) {
    Sha256 hash;
    for (const CopyItem& item : items) {
        if (item.inline_file != nullptr) continue;
        // The mode of a context's root directory is the user's own affair.
        const uint32_t mode = item.source.empty() ? 0 : item.entry.mode;
        Json row = {static_cast<int>(item.entry.type), item.target, mode, item.entry.link_target,
                    item.is_name};
        if (item.entry.type == EntryType::file) row.push_back(tree.digest(item.source));
        hash.update(row.dump(-1, ' ', false, Json::error_handler_t::replace));
        hash.update("\n");
    }
    return hash.finish().hex();
}

}  // namespace slipway::builder
