// The build context: a directory of the host without what .dockerignore leaves out.
#pragma once

#include <map>
#include <string>

#include "file_tree.hpp"
#include "ignore.hpp"
#include "slipway/base/path.hpp"

namespace slipway::builder {

/// Digests of files, remembered by device, inode, size, mtime and ctime between builds.
class DigestMemo {
 public:
    /// `path` is the memo's file; it may be absent.
    explicit DigestMemo(std::string path);
    std::string digest(int fd, const std::string& subject);
    void save();  ///< if anything was learned

 private:
    std::string path_;
    std::map<std::string, std::string> digests_;
    std::map<std::string, std::string> used_;
    bool changed_ = false;
};

class BuildContext : public FileTree {
 public:
    /// Throws: Error(not_found) if the directory is not there.
    BuildContext(const std::string& directory, IgnorePatterns ignored, DigestMemo& memo);

    std::optional<image::Entry> find(const std::string& path) const override;
    std::vector<std::string> names(const std::string& directory) const override;
    UniqueFd open(const std::string& path) const override;
    std::string digest(const std::string& path) const override;
    bool only_for_contents(const std::string& path) const override;

    const std::string& directory() const { return root_.name(); }
    bool ignores_anything() const { return !ignored_.empty(); }

 private:
    Root root_;
    IgnorePatterns ignored_;
    DigestMemo& memo_;
};

/// The patterns that belong to a Dockerfile: FILE.dockerignore beside it, else .dockerignore in the
/// context.
IgnorePatterns read_ignore_file(const std::string& context, const std::string& dockerfile);

}  // namespace slipway::builder
