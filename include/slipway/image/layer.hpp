// Layers on disk: writing a tar layer blob, unpacking layers into directories.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "slipway/base/digest.hpp"
#include "slipway/image/entry.hpp"

namespace slipway::image {

/// What a manifest says of one layer, and the digest of its uncompressed tar.
struct Layer {
    Digest digest;   ///< of the blob
    Digest diff_id;  ///< of the uncompressed tar
    uint64_t size_bytes = 0;
    std::string media_type;
    bool operator==(const Layer&) const = default;
};

enum class LayerCompression { none, gzip, zstd };

/// Write entries as a pax tar to an open file, compressed; reproducible (no names, no atime;
/// `clamp_mtime` bounds times: SOURCE_DATE_EPOCH). The caller syncs and names the file.
class LayerWriter {
 public:
    LayerWriter(int fd, LayerCompression compression, std::optional<int64_t> clamp_mtime = {});
    ~LayerWriter();
    LayerWriter(const LayerWriter&) = delete;
    LayerWriter& operator=(const LayerWriter&) = delete;
    /// Begin an entry; for a file exactly `size_bytes` must follow by write().
    void add(const Entry& entry);
    void write(const void* data, size_t size_bytes);
    /// Copy a whole source.
    void add_all(EntrySource& source);
    /// End the tar; returns digests, size and media type.
    Layer finish();

 private:
    struct State;
    std::unique_ptr<State> state_;
};

enum class UnpackStyle {
    plain,    ///< whiteouts remove what is there: apply layers one after another to get a root
              ///< directory
    overlay,  ///< whiteouts become overlayfs's own marks (user.overlay.*): the directory serves as
              ///< an overlay lower
};
struct UnpackReport {
    uint64_t entries = 0;
    uint64_t owners_not_kept = 0;   ///< entries whose uid/gid an ordinary user cannot give
    uint64_t devices_not_made = 0;  ///< device nodes an ordinary user cannot make
};
/// Unpack one layer below an existing directory through openat2: no entry can leave it. Ownership
/// that the caller may not set is counted, not an error. Directories get u+rwx while unpacking and
/// their own mode at the end.
UnpackReport unpack_layer(EntrySource& source, const std::string& directory, UnpackStyle style);

}  // namespace slipway::image
