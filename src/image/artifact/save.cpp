// Writes the files of an artifact.
// Must not: write anywhere but at the output that was named, whatever the files' titles are.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "../temp_file.hpp"
#include "model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr uint64_t kSliceBytes = 64u << 20;

[[noreturn]] void in_the_way(const std::string& path, const std::string& why) {
    throw Error(ErrorKind::already_exists, fmt::format("{} {}", slipway::quoted(path), why))
        .hint("name another output: -o FILE or -o DIRECTORY");
}

/// A title as a path below the output. Its publisher chose it.
std::string safe_title(const ArtifactFile& file) {
    if (file.title.empty()) return "sha256-" + file.digest.hex();
    std::string clean;
    if (!file.title.starts_with('/')) clean = clean_member_path(file.title);
    if (clean.empty())
        throw Error(ErrorKind::unsafe_path,
                    fmt::format("a file of the artifact would be written outside of the output: {}",
                                slipway::quoted(file.title)))
            .note(fmt::format("it is {}", file.digest.text()));
    return clean;
}

std::vector<std::string> safe_titles(const Artifact& artifact) {
    std::vector<std::string> titles;
    std::set<std::string> seen;
    for (const ArtifactFile& file : artifact.files) {
        titles.push_back(safe_title(file));
        if (!seen.insert(titles.back()).second)
            throw Error(ErrorKind::invalid_image, fmt::format("two files of the artifact are {}",
                                                              slipway::quoted(titles.back())));
    }
    return titles;
}

/// Copy through the kernel, which may share the blocks, and read back what was written.
void copy_checked(const BlobSource& blobs, const ArtifactFile& file, int to,
                  const std::string& path) {
    const UniqueFd from = blobs.open_blob(file.digest);
    Progress progress("writing " + path, file.size_bytes, Progress::Unit::bytes);
    for (uint64_t at = 0; at < file.size_bytes; at += kSliceBytes) {
        const uint64_t size = std::min(kSliceBytes, file.size_bytes - at);
        copy_bytes(from.get(), at, to, at, size, path);
        progress.add(size);
    }
    progress.finish();
    if (const Digest found = sha256_file(to, path); found != file.digest)
        throw Error(ErrorKind::invalid_image,
                    fmt::format("the blob {} is damaged", file.digest.text()))
            .note(fmt::format("its digest is {}", found.text()))
            .hint("remove the artifact (slipway rmi, slipway gc) and pull it again");
}

/// `at`: what the system knows as `path`.
void save(const BlobSource& blobs, const ArtifactFile& file, const std::string& at,
          const std::string& path) {
    const auto there = sys::stat_if_exists(AT_FDCWD, at, AT_SYMLINK_NOFOLLOW);
    if (there && S_ISDIR(there->st_mode)) in_the_way(path, "is a directory");
    if (there && !S_ISREG(there->st_mode)) in_the_way(path, "is there, and is no file");
    try {
        NewFile out(at);
        copy_checked(blobs, file, out.fd(), path);
        sys::fsync(out.fd(), path);
        out.commit(user_mode(0666));
    } catch (Error& error) {
        add_room_left(error, at, file.size_bytes);
        error.note(fmt::format("while writing {}", slipway::quoted(path)));
        throw;
    }
}

bool is_directory(const std::string& path) {
    const auto status = sys::stat_if_exists(AT_FDCWD, path);
    return status && S_ISDIR(status->st_mode);
}

}  // namespace

std::vector<std::string> save_artifact(const Artifact& artifact, const std::string& output) {
    if (artifact.files.size() == 1 && !output.ends_with('/') && !is_directory(output)) {
        save(*artifact.blobs, artifact.files[0], output, output);
        return {output};
    }
    const auto titles = safe_titles(artifact);
    if (sys::stat_if_exists(AT_FDCWD, output) && !is_directory(output))
        in_the_way(output, fmt::format("is no directory, and the artifact has {} files",
                                       artifact.files.size()));
    sys::make_directories(output);
    const Root root(output);
    std::vector<std::string> written;
    for (size_t i = 0; i < titles.size(); ++i) {
        const UniqueFd parent = root.open_parent(titles[i], true);
        const std::string name(base_name(titles[i]));
        written.push_back(join_path(output, titles[i]));
        save(*artifact.blobs, artifact.files[i],
             fmt::format("/proc/self/fd/{}/{}", parent.get(), name), written.back());
    }
    return written;
}

}  // namespace slipway::image
