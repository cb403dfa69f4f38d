// Writes the files of an artifact.
// Must not: write anywhere but at the output that was named, whatever the files' titles are.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>

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

/// An older file is replaced, nothing else.
void must_be_free(const std::optional<struct stat>& there, const std::string& path) {
    if (there && S_ISDIR(there->st_mode)) in_the_way(path, "is a directory");
    if (there && !S_ISREG(there->st_mode)) in_the_way(path, "is there, and is no file");
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

/// A file below the output.
struct Place {
    const ArtifactFile* file;
    std::string title;
};

/// Where the files go; one that is listed twice goes there once.
std::vector<Place> places_of(const Artifact& artifact) {
    std::vector<Place> places;
    std::map<std::string, Digest> seen;
    for (const ArtifactFile& file : artifact.files) {
        const std::string title = safe_title(file);
        const auto [there, is_new] = seen.try_emplace(title, file.digest);
        if (is_new)
            places.push_back({&file, title});
        else if (there->second != file.digest)
            throw Error(ErrorKind::invalid_image,
                        fmt::format("two files of the artifact are {}", slipway::quoted(title)));
    }
    for (const Place& place : places)
        for (size_t end = place.title.find('/'); end != std::string::npos;
             end = place.title.find('/', end + 1))
            if (const std::string parent = place.title.substr(0, end); seen.contains(parent))
                throw Error(ErrorKind::invalid_image,
                            fmt::format("the artifact has a file {} and in a directory of the same "
                                        "name a file {}",
                                        slipway::quoted(parent), slipway::quoted(place.title)));
    return places;
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
    must_be_free(sys::stat_if_exists(AT_FDCWD, at, AT_SYMLINK_NOFOLLOW), path);
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

bool is_one_file(const Artifact& artifact, const std::string& output) {
    return artifact.files.size() == 1 && !output.ends_with('/') && !is_directory(output);
}

/// `at`: what the system knows as `directory`.
void must_be_writable(const std::string& at, const std::string& directory) {
    if (::access(at.c_str(), W_OK | X_OK) != 0)
        throw SysError(fmt::format("cannot write into {}", slipway::quoted(directory)), "access")
            .hint("name another output: -o FILE or -o DIRECTORY");
}

/// Every directory on the way to a title that is there already, and what is in its place.
void check_place(const Root& root, const std::string& title) {
    std::string deepest;
    for (size_t end = title.find('/'); end != std::string::npos; end = title.find('/', end + 1)) {
        const std::string parent = title.substr(0, end);
        if (!root.stat(parent, false)) break;
        const auto status = root.stat(parent);
        if (!status || !S_ISDIR(status->st_mode))
            in_the_way(join_path(root.name(), parent), "is no directory");
        deepest = parent;
    }
    const UniqueFd directory = root.open(deepest, O_PATH | O_DIRECTORY);
    const std::string at = fmt::format("/proc/self/fd/{}", directory.get());
    must_be_writable(at, join_path(root.name(), deepest));
    if (deepest == parent_path(title))
        must_be_free(root.stat(title, false), join_path(root.name(), title));
}

/// A directory for the files that is to be made.
void check_new_directory(const std::string& output) {
    std::string there(absolute_path(output));
    while (!sys::stat_if_exists(AT_FDCWD, there, AT_SYMLINK_NOFOLLOW))
        there = std::string(parent_path(there));
    if (!is_directory(there)) in_the_way(there, "is no directory");
    must_be_writable(there, there);
}

}  // namespace

void check_output(const Artifact& artifact, const std::string& output) {
    if (is_one_file(artifact, output)) {
        must_be_free(sys::stat_if_exists(AT_FDCWD, output, AT_SYMLINK_NOFOLLOW), output);
        const std::string parent(parent_path(absolute_path(output)));
        if (!is_directory(parent))
            throw Error(ErrorKind::not_found, fmt::format("there is no directory {} to write into",
                                                          slipway::quoted(parent)))
                .hint("make it first: mkdir -p " + parent);
        return must_be_writable(parent, parent);
    }
    const auto places = places_of(artifact);
    if (is_directory(output)) {
        const Root root(output);
        for (const Place& place : places) check_place(root, place.title);
        return;
    }
    if (sys::stat_if_exists(AT_FDCWD, output))
        in_the_way(output, fmt::format("is no directory, and the artifact has {} files",
                                       artifact.files.size()));
    check_new_directory(output);
}

std::vector<std::string> save_artifact(const Artifact& artifact, const std::string& output) {
    check_output(artifact, output);
    if (is_one_file(artifact, output)) {
        save(*artifact.blobs, artifact.files[0], output, output);
        return {output};
    }
    const auto places = places_of(artifact);
    sys::make_directories(output);
    const Root root(output);
    std::vector<std::string> written;
    for (const Place& place : places) {
        const UniqueFd parent = root.open_parent(place.title, true);
        const std::string name(base_name(place.title));
        written.push_back(join_path(output, place.title));
        save(*artifact.blobs, *place.file, fmt::format("/proc/self/fd/{}/{}", parent.get(), name),
             written.back());
    }
    return written;
}

}  // namespace slipway::image
