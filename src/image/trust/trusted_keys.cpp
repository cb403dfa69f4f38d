// Public keys and certificate authorities that are believed, and checking signatures with them.
// Must not: believe a certificate that came with an image for any other reason than its issuer.
#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <map>

#include "openssl.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/full_program.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/signature.hpp"

namespace slipway::image {
namespace {

constexpr uint64_t kLargestPem = 1u << 20;

using StorePtr = std::unique_ptr<X509_STORE, OpensslFree<X509_STORE_free>>;
using ChainContext = std::unique_ptr<X509_STORE_CTX, OpensslFree<X509_STORE_CTX_free>>;
struct FreeStack {
    void operator()(STACK_OF(X509) * stack) const { sk_X509_pop_free(stack, X509_free); }
};
using Stack = std::unique_ptr<STACK_OF(X509), FreeStack>;

bool is_good(EVP_PKEY* key, const std::string& signature, std::string_view message) {
    const DigestContext context(EVP_MD_CTX_new());
    const bool good =
        context &&
        EVP_DigestVerifyInit(context.get(), nullptr, digest_for(key), nullptr, key) == 1 &&
        EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                         signature.size(), reinterpret_cast<const unsigned char*>(message.data()),
                         message.size()) == 1;
    ERR_clear_error();
    return good;
}

/// The certificates of a PEM text, in order.
Stack certificates_of(const std::string& text) {
    Stack stack(sk_X509_new_null());
    const BioPtr bio = reader_of(text);
    while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr))
        sk_X509_push(stack.get(), next);
    ERR_clear_error();
    return stack;
}

/// What a certificate may be used for: one that is limited to other things, a server's for example,
/// signs no images.
bool may_sign(X509* certificate) {
    return (X509_get_key_usage(certificate) & KU_DIGITAL_SIGNATURE) != 0 &&
           (X509_get_extended_key_usage(certificate) & XKU_CODE_SIGN) != 0;
}

/// Check a chain against the authorities; returns "" or what is wrong.
std::string chain_problem(X509_STORE* authorities, STACK_OF(X509) * chain) {
    const ChainContext context(X509_STORE_CTX_new());
    if (!context ||
        X509_STORE_CTX_init(context.get(), authorities, sk_X509_value(chain, 0), chain) != 1)
        return openssl_reason();
    if (X509_verify_cert(context.get()) == 1) return "";
    ERR_clear_error();
    return X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()));
}

}  // namespace

struct TrustedKeys::State {
    std::map<Digest, KeyPtr> keys;
    StorePtr authorities{X509_STORE_new()};
    size_t authority_count = 0;

    size_t add_keys(const std::string& text, const std::string& file);
    std::optional<std::string> check_certificate(const Signature& signature,
                                                 std::string_view message, std::string& why) const;
};

size_t TrustedKeys::State::add_keys(const std::string& text, const std::string& file) {
    size_t count = 0;
    const BioPtr bio = reader_of(text);
    while (KeyPtr key{PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr)}) {
        if (!is_our_kind(key.get()))
            throw Error(ErrorKind::unsupported,
                        fmt::format("{} holds a key that is neither Ed25519 nor ECDSA on P-256",
                                    slipway::quoted(file)));
        const Digest id = id_of(key.get());
        keys[id] = std::move(key);
        ++count;
    }
    ERR_clear_error();
    return count;
}

std::optional<std::string> TrustedKeys::State::check_certificate(const Signature& signature,
                                                                 std::string_view message,
                                                                 std::string& why) const {
    const Stack chain = certificates_of(signature.certificates);
    X509* first = sk_X509_num(chain.get()) > 0 ? sk_X509_value(chain.get(), 0) : nullptr;
    if (first == nullptr) {
        why = "its certificate cannot be read";
        return std::nullopt;
    }
    const std::string name = "certificate " + subject_of(first);
    EVP_PKEY* key = X509_get0_pubkey(first);
    if (key == nullptr || !is_our_kind(key) ||
        (!signature.key_id.empty() && id_of(key) != signature.key_id))
        why = name + ": it is not the signing key's";
    else if (const auto problem = chain_problem(authorities.get(), chain.get()); !problem.empty())
        why = name + ": " + problem;
    else if (!may_sign(first))
        why = name + ": it was issued for other uses than signing";
    else if (!is_good(key, signature.bytes, message))
        why = name + ": the signature is not good";
    else
        return name;
    return std::nullopt;
}

TrustedKeys::TrustedKeys() {
    // OpenSSL may load what its configuration names (FIPS), which a static program cannot.
    need_full_program();
    state_ = std::make_unique<State>();
    // An authority that is named is believed, whether or not it is itself issued by another.
    X509_STORE_set_flags(state_->authorities.get(), X509_V_FLAG_PARTIAL_CHAIN);
}
TrustedKeys::~TrustedKeys() = default;
TrustedKeys::TrustedKeys(TrustedKeys&&) noexcept = default;
TrustedKeys& TrustedKeys::operator=(TrustedKeys&&) noexcept = default;

bool TrustedKeys::empty() const { return state_->keys.empty() && state_->authority_count == 0; }

void TrustedKeys::add_file(const std::string& file) {
    const std::string text = read_file(file, kLargestPem);
    size_t found = state_->add_keys(text, file);
    const Stack certificates = certificates_of(text);
    for (int i = 0; i < sk_X509_num(certificates.get()); ++i, ++found, ++state_->authority_count)
        X509_STORE_add_cert(state_->authorities.get(), sk_X509_value(certificates.get(), i));
    ERR_clear_error();
    if (found > 0) return;
    const bool secret = text.find("PRIVATE KEY") != std::string::npos;
    throw Error(ErrorKind::usage, fmt::format("{} holds {}", slipway::quoted(file),
                                              secret ? "a private key, not a public one"
                                                     : "neither a public key nor a certificate"))
        .hint(secret ? fmt::format("take its public half: openssl pkey -in {} -pubout", file)
                     : "give a PEM file with BEGIN PUBLIC KEY or BEGIN CERTIFICATE");
}

void TrustedKeys::add_directory(const std::string& directory) {
    const auto fd = sys::openat_if_exists(AT_FDCWD, directory, O_RDONLY | O_DIRECTORY);
    if (!fd) return;
    for (const auto& name : sys::list_directory(fd->get(), directory))
        if (name.ends_with(".pem") || name.ends_with(".pub")) add_file(join_path(directory, name));
}

std::optional<std::string> TrustedKeys::signer_of(const Signature& signature,
                                                  std::string_view message,
                                                  std::string& why) const {
    if (signature.key_id.empty())
        for (const auto& [id, key] : state_->keys)
            if (is_good(key.get(), signature.bytes, message)) return "key " + id.text();
    const std::string name =
        signature.key_id.empty() ? "a key that is not named" : "key " + signature.key_id.text();
    if (const auto known = state_->keys.find(signature.key_id); known != state_->keys.end()) {
        if (is_good(known->second.get(), signature.bytes, message)) return name;
        why = name + ": the signature is not good";
        return std::nullopt;
    }
    if (!signature.certificates.empty() && state_->authority_count > 0)
        return state_->check_certificate(signature, message, why);
    why = name + (signature.certificates.empty() ? ": it is not among the trusted keys"
                                                 : ": no authority is named for its certificate");
    return std::nullopt;
}

}  // namespace slipway::image
