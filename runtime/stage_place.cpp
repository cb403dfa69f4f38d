// Probes files and local disks for staging.
// Must not: choose between them, or make anything.
#include "stage_place.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

namespace {

struct FileSystem {
    uint64_t type;
    const char* name;
};

/// Magic numbers of linux/magic.h and of the file systems' own headers.
constexpr FileSystem kShared[] = {
    {0x6969, "NFS"},        {0x0bd00bd0, "Lustre"},   {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"},
    {0x00c36400, "CephFS"}, {0xff534d42, "CIFS"},     {0xfe534d42, "SMB"},  {0x517b, "SMB"},
    {0x65735546, "FUSE"},   {0x5346414f, "AFS"},      {0x6b414653, "AFS"},  {0x01021997, "9p"},
    {0xaad7aaea, "PanFS"},  {0x20030528, "OrangeFS"}, {0x01161970, "GFS2"}, {0x7461636f, "OCFS2"},
    {0x73757245, "Coda"},   {0x013111a8, "Wekafs"},
};

/// Directories that sites give to local disks, after what the job was told; /dev/shm is memory.
constexpr const char* kUsual[] = {"/local", "/scratch/local", "/local/scratch", "/tmp", "/dev/shm"};

StagePlace probe_place(const std::string& path, const std::string& why) {
    StagePlace place;
    place.path = path;
    place.why = why;
    const auto directory = sys::openat_if_exists(AT_FDCWD, path, O_PATH | O_DIRECTORY);
    if (!directory) {
        place.problem = "is not there";
        return place;
    }
    const std::string shared = shared_file_system(sys::file_system_type(directory->get(), path));
    if (!shared.empty())
        place.problem = fmt::format("lies on {}, which other nodes share", shared);
    else if (::access(path.c_str(), W_OK | X_OK) != 0)
        place.problem = "is not open to you for writing";
    if (!place.problem.empty()) return place;
    struct statvfs room {};
    if (::statvfs(path.c_str(), &room) == 0)
        place.free_bytes = static_cast<uint64_t>(room.f_bavail) * room.f_frsize;
    const std::string own = stage_directory(path, ::geteuid());
    const auto status = sys::stat_if_exists(AT_FDCWD, own, AT_SYMLINK_NOFOLLOW);
    if (!status) return place;
    if (!S_ISDIR(status->st_mode) || status->st_uid != ::geteuid() ||
        (status->st_mode & 022) != 0) {
        place.problem = fmt::format("has {} that is not yours alone", slipway::quoted(own));
        return place;
    }
    const UniqueFd staged = sys::open(own, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    for (auto& name : sys::list_directory(staged.get(), own)) place.staged.insert(std::move(name));
    return place;
}

}  // namespace

std::optional<FileFacts> probe_file(const std::string& path) {
    const auto status = sys::stat_if_exists(AT_FDCWD, path);
    if (!status) return std::nullopt;
    FileFacts facts;
    facts.identity = fmt::format("{}:{}:{}:{}.{:09}", status->st_dev, status->st_ino,
                                 status->st_size, status->st_mtim.tv_sec, status->st_mtim.tv_nsec);
    facts.size_bytes = static_cast<uint64_t>(status->st_size);
    facts.regular = S_ISREG(status->st_mode);
    const UniqueFd file = sys::open(path, O_PATH);
    facts.shared_on = shared_file_system(sys::file_system_type(file.get(), path));
    return facts;
}

std::vector<StagePlace> probe_stage_places(const std::string& choice) {
    if (choice != "auto") return {probe_place(choice, "--stage")};
    std::vector<StagePlace> places;
    for (const char* name : {"SLURM_TMPDIR", "TMPDIR"}) {
        const char* value = std::getenv(name);
        if (value != nullptr && *value == '/')
            places.push_back(probe_place(value, std::string("$") + name));
    }
    for (const char* path : kUsual) places.push_back(probe_place(path, "a usual place"));
    return places;
}

std::string stage_directory(const std::string& place, uint32_t uid) {
    return join_path(place, fmt::format("slipway-stage-{}", uid));
}

std::string shared_file_system(uint64_t type) {
    for (const auto& row : kShared)
        if (row.type == type) return row.name;
    return {};
}

}  // namespace slipway::runtime
