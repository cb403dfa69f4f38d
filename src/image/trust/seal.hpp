// The seal of a signed squashfs file: what lies behind the squashfs. Private to the image room; the
// format is described in docs/reference/signatures.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hash_tree.hpp"
#include "slipway/image/signature.hpp"

namespace slipway::image {

inline constexpr uint32_t kSealAlignBytes = 4096;

struct Seal {
    uint64_t content_bytes = 0;  ///< the squashfs, padded; the seal's header begins there
    HashBytes root{};
    std::vector<Signature> signatures;

    uint64_t tree_offset_bytes() const { return content_bytes + kSealAlignBytes; }
    /// What is signed: everything that decides what the contents are.
    std::string message() const;
    Digest digest() const { return sha256(message()); }
};

/// Where a seal of this squashfs begins. Throws: Error(invalid_image) for no or a bad squashfs.
uint64_t seal_offset(int fd, const std::string& subject);
/// Read and check a seal's form, not its truth; std::nullopt when nothing lies behind the squashfs.
/// Throws: Error(invalid_image) for what is no seal of this version.
std::optional<Seal> read_seal(int fd, const std::string& subject);
/// Put header, tree and signatures behind the contents, and nothing behind them.
void write_seal(int fd, const std::string& subject, const Seal& seal, const HashTree& tree);

/// Reads a sealed file's contents against the seal with this digest.
/// Throws: Error(invalid_image) when the file has no seal or another.
std::shared_ptr<const SealedContent> open_sealed(int fd, const std::string& subject,
                                                 const Digest& seal);

}  // namespace slipway::image
