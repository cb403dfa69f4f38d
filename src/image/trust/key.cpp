// Private keys and their certificates, from PEM files, and signing with them.
// Must not: keep a password, or write a key anywhere.
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "openssl.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/image/signature.hpp"

namespace slipway::image {
namespace {

constexpr uint64_t kLargestPem = 1u << 20;
constexpr const char* kMakeKey = "make one: openssl genpkey -algorithm ed25519 -out key.pem";

/// OpenSSL's callback for the password of an encrypted key.
int password(char* buffer, int size, int writing, void* user) {
    if (const char* given = std::getenv("SLIPWAY_KEY_PASSWORD")) {
        const size_t length = std::strlen(given);
        if (length > static_cast<size_t>(size)) return -1;
        std::memcpy(buffer, given, length);
        return static_cast<int>(length);
    }
    if (::isatty(STDIN_FILENO) == 0) return -1;
    return PEM_def_callback(buffer, size, writing, user);
}

KeyPtr read_private_key(const std::string& file) {
    const std::string text = read_file(file, kLargestPem);
    if (text.find("ENCRYPTED SIGSTORE PRIVATE KEY") != std::string::npos ||
        text.find("ENCRYPTED COSIGN PRIVATE KEY") != std::string::npos)
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} is a key in cosign's own format", slipway::quoted(file)))
            .hint(
                "sign with a PEM key: openssl ecparam -name prime256v1 -genkey -noout -out "
                "key.pem; cosign verifies with its public half");
    KeyPtr key(PEM_read_bio_PrivateKey(reader_of(text).get(), nullptr, password, nullptr));
    if (!key) {
        const std::string reason = openssl_reason();
        const bool locked = text.find("ENCRYPTED") != std::string::npos;
        throw Error(ErrorKind::usage, fmt::format("cannot read a private key from {}: {}",
                                                  slipway::quoted(file), reason))
            .hint(locked ? "put its password into SLIPWAY_KEY_PASSWORD" : kMakeKey);
    }
    if (!is_our_kind(key.get()))
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} is neither an Ed25519 key nor an ECDSA key on P-256",
                                slipway::quoted(file)))
            .hint(kMakeKey);
    return key;
}

/// The file's certificates, checked to begin with the key's.
std::string read_certificates(const std::string& file, EVP_PKEY* key) {
    std::string text = read_file(file, kLargestPem);
    const CertificatePtr first(PEM_read_bio_X509(reader_of(text).get(), nullptr, nullptr, nullptr));
    if (!first)
        throw Error(ErrorKind::usage, fmt::format("{} holds no certificate: {}",
                                                  slipway::quoted(file), openssl_reason()))
            .hint("give a PEM file that begins with BEGIN CERTIFICATE");
    if (X509_check_private_key(first.get(), key) != 1) {
        ERR_clear_error();
        throw Error(ErrorKind::usage, fmt::format("the certificate in {} ({}) is not this key's",
                                                  slipway::quoted(file), subject_of(first.get())))
            .hint("give the certificate that was issued for the key of --key, first in its file");
    }
    return text;
}

}  // namespace

BioPtr reader_of(const std::string& text) {
    BioPtr bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    if (!bio) throw Error(ErrorKind::internal, "OpenSSL gives no buffer");
    return bio;
}

std::string openssl_reason() {
    const char* reason = ERR_reason_error_string(ERR_peek_last_error());
    const std::string text = reason != nullptr ? reason : "not understood";
    ERR_clear_error();
    return text;
}

bool is_our_kind(const EVP_PKEY* key) {
    if (EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519) return true;
    char group[32] = {};
    size_t size = 0;
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
           EVP_PKEY_get_group_name(key, group, sizeof group, &size) == 1 &&
           std::strcmp(group, "prime256v1") == 0;
}

const EVP_MD* digest_for(const EVP_PKEY* key) {
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519 ? nullptr : EVP_sha256();
}

Digest id_of(EVP_PKEY* key) {
    unsigned char* der = nullptr;
    const int size = i2d_PUBKEY(key, &der);
    if (size <= 0) throw Error(ErrorKind::internal, "OpenSSL cannot encode a public key");
    const Digest id = sha256({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
    OPENSSL_free(der);
    return id;
}

std::string subject_of(const X509* certificate) {
    const BioPtr out(BIO_new(BIO_s_mem()));
    X509_NAME_print_ex(out.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
    char* data = nullptr;
    const long size = BIO_get_mem_data(out.get(), &data);
    return size > 0 ? std::string(data, static_cast<size_t>(size)) : "without a name";
}

struct SigningKey::State {
    KeyPtr key;
    Digest id;
    std::string certificates;
};

SigningKey::SigningKey(const std::string& key_file, const std::string& certificate_file)
    : state_(std::make_unique<State>()) {
    state_->key = read_private_key(key_file);
    state_->id = id_of(state_->key.get());
    if (!certificate_file.empty())
        state_->certificates = read_certificates(certificate_file, state_->key.get());
}
SigningKey::~SigningKey() = default;
SigningKey::SigningKey(SigningKey&&) noexcept = default;
SigningKey& SigningKey::operator=(SigningKey&&) noexcept = default;

const Digest& SigningKey::id() const { return state_->id; }

Signature SigningKey::sign(std::string_view message) const {
    const DigestContext context(EVP_MD_CTX_new());
    EVP_PKEY* key = state_->key.get();
    const auto* data = reinterpret_cast<const unsigned char*>(message.data());
    size_t size = 0;
    Signature signature{state_->id, {}, state_->certificates};
    bool good = context &&
                EVP_DigestSignInit(context.get(), nullptr, digest_for(key), nullptr, key) == 1 &&
                EVP_DigestSign(context.get(), nullptr, &size, data, message.size()) == 1;
    if (good) {
        signature.bytes.resize(size);
        good =
            EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.bytes.data()),
                           &size, data, message.size()) == 1;
        signature.bytes.resize(good ? size : 0);
    }
    if (!good)
        throw Error(ErrorKind::internal,
                    fmt::format("OpenSSL cannot sign with this key: {}", openssl_reason()));
    return signature;
}

}  // namespace slipway::image
