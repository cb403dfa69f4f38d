// SHA-256 by OpenSSL's libcrypto.
// Must not: know where digests are used.
#include "slipway/base/digest.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway {
namespace {
constexpr std::string_view kPrefix = "sha256:";
}

Digest Digest::parse(std::string_view text) {
    const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (text.size() != kPrefix.size() + 64 || text.substr(0, kPrefix.size()) != kPrefix ||
        !std::all_of(text.begin() + kPrefix.size(), text.end(), hex))
        throw Error(ErrorKind::invalid_image,
                    fmt::format("{} is not a sha256 digest", quoted(text)));
    return Digest(std::string(text));
}

struct Sha256::State {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
    if (state_->context == nullptr ||
        EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1)
        throw Error(ErrorKind::internal, "libcrypto gives no SHA-256");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(const void* data, size_t size_bytes) {
    EVP_DigestUpdate(state_->context, data, size_bytes);
}

std::array<std::byte, 32> Sha256::finish_bytes() {
    std::array<std::byte, 32> out{};
    unsigned size = 0;
    EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(out.data()), &size);
    return out;
}

Digest Sha256::finish() {
    std::string text(kPrefix);
    for (const std::byte byte : finish_bytes())
        text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    return Digest(std::move(text));
}

Digest sha256(std::string_view data) {
    Sha256 hash;
    hash.update(data);
    return hash.finish();
}

Digest sha256_file(int fd, const std::string& subject) {
    Sha256 hash;
    std::vector<char> buffer(1 << 20);
    for (uint64_t offset = 0;;) {
        const size_t n = sys::pread(fd, buffer.data(), buffer.size(), offset, subject);
        if (n == 0) return hash.finish();
        hash.update(buffer.data(), n);
        offset += n;
    }
}

}  // namespace slipway
