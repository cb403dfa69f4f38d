// Ownership of OpenSSL's objects, and its errors in words. Private to the image room.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "slipway/base/digest.hpp"

namespace slipway::image {

template <auto Free>
struct OpensslFree {
    template <typename T>
    void operator()(T* object) const {
        Free(object);
    }
};
using KeyPtr = std::unique_ptr<EVP_PKEY, OpensslFree<EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, OpensslFree<X509_free>>;
using BioPtr = std::unique_ptr<BIO, OpensslFree<BIO_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, OpensslFree<EVP_MD_CTX_free>>;

/// A text to read PEM from; it must outlive the reader.
BioPtr reader_of(const std::string& text);
/// Take and clear what OpenSSL says of its last failure.
std::string openssl_reason();
/// Ed25519 or ECDSA on P-256.
bool is_our_kind(const EVP_PKEY* key);
/// The digest to sign with: none for Ed25519, which has its own.
const EVP_MD* digest_for(const EVP_PKEY* key);
/// SHA-256 of the public key's SubjectPublicKeyInfo (DER).
Digest id_of(EVP_PKEY* key);
std::string subject_of(const X509* certificate);

}  // namespace slipway::image
