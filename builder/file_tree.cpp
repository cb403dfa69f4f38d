// Paths inside a tree, links followed as if its root were "/".
// Must not: touch the host's files.
#include "file_tree.hpp"

#include <fmt/format.h>

#include <deque>

#include "slipway/base/error.hpp"
#include "text.hpp"

namespace slipway::builder {

std::string member_join(const std::string& directory, const std::string& name) {
    return directory.empty() ? name : name.empty() ? directory : directory + "/" + name;
}

std::string member_parent(const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string resolve_links(const Lookup& find, const std::string& path, bool follow_last) {
    std::deque<std::string> rest;
    for (const std::string& part : split(path, '/')) rest.push_back(part);
    std::string done;
    int links = 0;
    while (!rest.empty()) {
        const std::string part = rest.front();
        rest.pop_front();
        if (part.empty() || part == ".") continue;
        if (part == "..") {
            done = member_parent(done);
            continue;
        }
        const std::string next = member_join(done, part);
        const auto entry = find(next);
        const bool last = rest.empty();
        if (!entry || entry->type != image::EntryType::symlink || (last && !follow_last)) {
            done = next;
            continue;
        }
        if (++links > 40)
            throw Error(ErrorKind::unsafe_path,
                        fmt::format("{} leads through a circle of symbolic links",
                                    slipway::quoted("/" + path)));
        if (starts_with(entry->link_target, "/")) done.clear();
        const auto target = split(entry->link_target, '/');
        rest.insert(rest.begin(), target.begin(), target.end());
    }
    return done;
}

}  // namespace slipway::builder
