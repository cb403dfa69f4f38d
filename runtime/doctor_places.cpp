// Tries the directories that Slipway writes to: space, attributes, locks.
// Must not: make the store, or leave a file in it.
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>

#include "doctor_checks.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime::doctor {

namespace {

using Level = Finding::Level;

constexpr uint64_t kEnoughSpace = 1u << 30;

struct FileSystem {
    long magic;
    const char* name;
    bool shared;  ///< among nodes: no upper layer of an overlay
};

constexpr FileSystem kFileSystems[] = {
    {EXT4_SUPER_MAGIC, "ext4", false},
    {XFS_SUPER_MAGIC, "xfs", false},
    {BTRFS_SUPER_MAGIC, "btrfs", false},
    {TMPFS_MAGIC, "tmpfs", false},
    {F2FS_SUPER_MAGIC, "f2fs", false},
    {OVERLAYFS_SUPER_MAGIC, "overlay", false},
    {0x2fc12fc1, "zfs", false},
    {NFS_SUPER_MAGIC, "NFS", true},
    {0x0bd00bd0, "Lustre", true},
    {0x47504653, "GPFS", true},
    {0x19830326, "BeeGFS", true},
    {CEPH_SUPER_MAGIC, "CephFS", true},
    {0x65735546, "FUSE", false},
    {SMB2_SUPER_MAGIC, "SMB", true},
    {0x01021997, "9p", true},
    {0x6a656a63, "virtiofs", true},
};

/// What a child found out about a directory: everything that could hang is in there.
struct PlaceFacts {
    long type = 0;
    uint64_t free_bytes = 0;
};

std::string describe(long type) {
    const auto row = std::find_if(std::begin(kFileSystems), std::end(kFileSystems),
                                  [&](const FileSystem& known) { return known.magic == type; });
    return row != std::end(kFileSystems) ? row->name : fmt::format("file system {:#x}", type);
}

PlaceFacts facts_of(const std::string& directory) {
    struct statfs status {};
    if (::statfs(directory.c_str(), &status) != 0)
        throw SysError("cannot look at " + slipway::quoted(directory), "statfs");
    return {static_cast<long>(status.f_type),
            uint64_t{status.f_bavail} * static_cast<uint64_t>(status.f_bsize)};
}

Finding check_space(const std::string& name, const std::string& directory) {
    const Trial trial = try_in_child(
        [&] {
            const PlaceFacts facts = facts_of(directory);
            return fmt::format("{} {}", facts.type, facts.free_bytes);
        },
        kPatience);
    if (!trial.ok())
        return failed(Level::warning, name, *trial.error, "everything that uses it fails or hangs");
    char* end = nullptr;
    const long type = std::strtol(trial.text.c_str(), &end, 10);
    const uint64_t free = std::strtoull(end, nullptr, 10);
    Finding finding = good(name, fmt::format("{} on {}, {} free", slipway::quoted(directory),
                                             describe(type), human_bytes(free)));
    const bool shared =
        std::any_of(std::begin(kFileSystems), std::end(kFileSystems),
                    [&](const FileSystem& known) { return known.magic == type && known.shared; });
    if (free < kEnoughSpace) {
        finding.level = Level::warning;
        finding.meaning = "large images do not fit";
        finding.remedy = "free some space there, or choose another place (SLIPWAY_STORE, TMPDIR)";
    } else if (shared && name == "store") {
        finding.level = Level::warning;
        finding.meaning = "images run from a shared file system; builds need a local one";
        finding.remedy = "build with --storage on a local disk";
    }
    return finding;
}

/// Write a file, give it an attribute, lock it: what a store and a build do all the time.
std::string try_use(const std::string& path) {
    const UniqueFd file = sys::open(path, O_RDWR | O_CREAT, 0600);
    const std::string data(1 << 16, 'x');
    sys::pwrite_all(file.get(), data.data(), data.size(), 0, path);
    sys::fsync(file.get(), path);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) throw SysError("cannot lock a file", "flock");
    if (::fsetxattr(file.get(), "user.slipway.doctor", "1", 1, 0) != 0)
        return SysError("no extended attributes", "fsetxattr").message();
    return "";
}

Finding check_use(const std::string& name, const std::string& directory, const std::string& meaning,
                  const std::string& remedy) {
    try {
        require_answer(directory);
        const TempDir place(directory, ".slipway-doctor-");
        const Trial trial =
            try_in_child([&] { return try_use(join_path(place.path(), "file")); }, kPatience);
        if (!trial.ok()) return failed(Level::warning, name, *trial.error, meaning, remedy);
        Finding finding = good(name, "files, locks and attributes work");
        if (trial.text.empty()) return finding;
        finding.level = Level::warning;
        finding.found = "files and locks work; " + trial.text;
        finding.meaning = "what images keep in attributes (capabilities of files) is lost there";
        finding.remedy = "use a local disk for builds";
        return finding;
    } catch (const Error& error) {
        return failed(Level::warning, name, error, meaning, remedy);
    }
}

}  // namespace

Findings check_places(const std::string& store) {
    const std::string temporary = temporary_directory(), near = nearest_directory(store);
    Findings findings;
    findings.push_back(check_space("temporary files", temporary));
    findings.push_back(check_use("use of temporary files", temporary,
                                 "builds, conversions and many programs fail",
                                 "free some space there, or set TMPDIR to another directory"));
    findings.push_back(check_space("store", near));
    findings.push_back(check_use("use of the store", near, "no image can be stored or built there",
                                 "choose another store: --storage DIR or SLIPWAY_STORE"));
    if (near != store)
        findings[2].found = slipway::quoted(store) + " (not made yet), " + findings[2].found;
    return findings;
}

}  // namespace slipway::runtime::doctor
