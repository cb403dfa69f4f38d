// Content digests: SHA-256, in the "sha256:<hex>" form of the OCI specifications.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace slipway {

/// A validated "sha256:" digest.
class Digest {
 public:
    Digest() = default;
    /// Throws: Error(invalid_image) when the text is no sha256 digest.
    static Digest parse(std::string_view text);
    const std::string& text() const { return text_; }  ///< "sha256:<64 hex digits>"
    std::string hex() const { return text_.empty() ? "" : text_.substr(7); }  ///< the 64 hex digits
    bool empty() const { return text_.empty(); }
    auto operator<=>(const Digest&) const = default;

 private:
    explicit Digest(std::string text) : text_(std::move(text)) {}
    std::string text_;
    friend class Sha256;
};

/// A running SHA-256 (OpenSSL's libcrypto).
class Sha256 {
 public:
    Sha256();
    ~Sha256();
    Sha256(Sha256&&) noexcept;
    Sha256& operator=(Sha256&&) noexcept;
    void update(const void* data, size_t size_bytes);
    void update(std::string_view text) { update(text.data(), text.size()); }
    /// Finish; the object may not be used afterwards.
    std::array<std::byte, 32> finish_bytes();
    Digest finish();

 private:
    struct State;
    std::unique_ptr<State> state_;
};

Digest sha256(std::string_view data);
/// Digest of everything an open file holds, read from its start.
Digest sha256_file(int fd, const std::string& subject);

}  // namespace slipway
