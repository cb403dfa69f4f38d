// Squashfs: writing an image from its layers, checking a file, and serving one over FUSE.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipway/base/digest.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/config.hpp"
#include "slipway/image/entry.hpp"

namespace slipway::image {

enum class SquashfsCodec { zstd, gzip, xz, lz4 };

struct SquashfsOptions {
    SquashfsCodec codec = SquashfsCodec::zstd;
    int level = 0;  ///< 0: the codec's usual one (zstd 3, gzip 6)
    uint32_t block_size_bytes = 128 << 10;
    unsigned threads = 0;                      ///< 0: as many as there are processors
    std::optional<int64_t> source_date_epoch;  ///< no file is newer, and the image is this old
    /// Keep each layer's compressed blocks here, by LayerInput::key, so that it is compressed once;
    /// "": nothing is kept. The files may be removed at any time.
    std::string pack_directory;
    /// How much may lie there; the packs that were used least recently go first.
    uint64_t pack_limit_bytes = 20'000'000'000;
    std::string source;  ///< digest of the manifest that is converted, noted inside; "" = none
};

/// $SLIPWAY_PACK_CACHE, such as "500M" or "20G" (0: keep no packs), else the built-in limit.
/// Throws: Error(usage).
uint64_t pack_limit_from_environment();

struct SquashfsReport {
    uint64_t inodes = 0;
    uint64_t input_bytes = 0;   ///< sum of file sizes
    uint64_t output_bytes = 0;  ///< of the squashfs file
    uint64_t duplicate_bytes = 0;
    uint64_t packed_bytes = 0;     ///< written beside the output: layers without a pack, repacking
    uint64_t repacked_blocks = 0;  ///< fragment blocks of which less than half was alive
    uint64_t saved_bytes = 0;      ///< by packing what was alive of them anew
    std::vector<std::string> warnings;  ///< what the format cannot hold (POSIX ACLs), once per kind
};

/// Opens one layer's stream of entries; called once, base first.
using LayerOpener = std::function<std::unique_ptr<EntrySource>()>;

/// A layer and what identifies its contents, as the start of a file name (the hexadecimal diff id;
/// "": do not keep its pack).
struct LayerInput {
    std::string key;
    /// As a LayerOpener; adds to the progress what it has read of `size_bytes`.
    std::function<std::unique_ptr<EntrySource>(Progress*)> open;
    uint64_t size_bytes = 0;  ///< of the layer as it is stored; 0: not known
};

/// Write one squashfs from layers applied base first (whiteouts, opaque directories, replaced
/// files, hard links), without unpacking them to disk; the config document is added at
/// kConfigPathInImage, and what ch-run and Apptainer read where the image has none. The same input
/// gives the same bytes on any number of threads. The output appears by rename: whole or not at
/// all. Memory: about 1 KB an entry of all layers, and 4 x threads + 6 blocks. Layers without a
/// cached pack need room beside the output for their compressed data, in files without a name.
/// Throws: Error(invalid_archive), Error(unsafe_path), Error(no_space).
SquashfsReport write_squashfs(const std::vector<LayerInput>& layers, const ImageConfig& config,
                              const std::string& output, const SquashfsOptions& options = {});
/// The same for layers without keys.
SquashfsReport write_squashfs(const std::vector<LayerOpener>& layers, const ImageConfig& config,
                              const std::string& output, const SquashfsOptions& options = {});

/// Facts of a squashfs file, checked: magic, version, known codec, tables inside the file.
struct SquashfsInfo {
    std::string codec;
    uint32_t block_size_bytes = 0;
    uint32_t inodes = 0;
    uint64_t bytes_used = 0;
    int64_t modified = 0;
};

namespace squashfs {
class ImageReader;
}

/// A squashfs in an open file, checked. What was read of it once serves all who share it: it may be
/// used from any thread, and in a forked process.
class SquashfsImage {
 public:
    /// `offset_bytes` is where in the file the squashfs begins: 0, or a SIF's partition; where a
    /// `seal` is given, everything is checked against it before it is used (signature.hpp).
    /// Throws: Error(invalid_image) with the reason: no squashfs, truncated, damaged.
    SquashfsImage(UniqueFd fd, const std::string& subject, uint64_t offset_bytes = 0,
                  const Digest& seal = {});
    ~SquashfsImage();

    int fd() const { return fd_.get(); }
    SquashfsInfo info() const;
    /// The config document inside, or std::nullopt for a squashfs without one.
    std::optional<ImageConfig> config(ConfigScope scope = ConfigScope::all) const;
    /// A whole small file from inside (links not followed); std::nullopt if it is not there.
    std::optional<std::string> read_file(const std::string& path) const;
    /// For this room.
    const squashfs::ImageReader& reader() const { return *reader_; }

 private:
    UniqueFd fd_;
    std::unique_ptr<const squashfs::ImageReader> reader_;
};

/// Walk a squashfs as a stream of entries (for conversion back).
std::unique_ptr<EntrySource> open_squashfs(UniqueFd fd, const std::string& subject,
                                           uint64_t offset_bytes = 0);

struct SquashfsServerOptions {
    int fuse_fd = -1;  ///< an open /dev/fuse that is or will be mounted; owned by the caller
    std::shared_ptr<const SquashfsImage> image;
    /// Show every file as this user's (overlay over FUSE needs mapped owners): an id of the user
    /// namespace in which /dev/fuse is mounted, so 0 where the caller is mapped to root.
    std::optional<uint32_t> show_uid;
    std::optional<uint32_t> show_gid;
    unsigned threads = 2;
    /// Shown as empty files and directories where the image has nothing and their parents are
    /// directories of the image: what is to be mounted there needs no other place.
    struct MountPoint {
        std::string path;  ///< absolute; links are followed inside
        bool directory = false;
    };
    std::vector<MountPoint> mount_points;
    /// What will be asked for first, read ahead of the requests: the first of these programs that
    /// is there, with its interpreter and libraries, and these files. At most 8 MiB.
    std::vector<std::string> programs_ahead, files_ahead;
};
/// The mount options that go with the server:
/// "fd=N,rootmode=40000,user_id=U,group_id=G,default_permissions,allow_other".
std::string fuse_mount_options(int fuse_fd, uint32_t uid, uint32_t gid);
/// A server of one squashfs file; reads ahead from its construction on. The options' descriptor
/// stays the caller's and must outlive it.
class SquashfsServer {
 public:
    /// Throws: Error(invalid_image).
    explicit SquashfsServer(SquashfsServerOptions options);
    ~SquashfsServer();
    /// Serve until the file system is unmounted or its last mount namespace has ended; the calling
    /// process must not itself be in one that holds the mount. Pre: /dev/fuse is mounted. Installs
    /// no signal handlers. Keeps at most 64 MiB of decompressed metadata and 48 MiB of data blocks,
    /// and 16 MiB of what it knows of the kernel's files.
    /// A damaged image gives EIO inside. Returns 0, or an errno of /dev/fuse.
    int serve();

 private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};
/// Serve a file with a server of its own.
int serve_squashfs(const SquashfsServerOptions& options);

}  // namespace slipway::image
