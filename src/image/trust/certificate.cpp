// Reads names out of certificates, for messages.
// Must not: judge whether a certificate is believed (trusted_keys.cpp does).
#include "certificate.hpp"

#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <algorithm>

#include "openssl.hpp"
#include "slipway/base/error.hpp"

namespace slipway::image {
namespace {

// Source: sigstore/fulcio docs/oid-info.md, the issuer of the identity, old form and new.
constexpr const char* kFulcioIssuers[] = {"1.3.6.1.4.1.57264.1.1", "1.3.6.1.4.1.57264.1.8"};

using NamesPtr = std::unique_ptr<GENERAL_NAMES, OpensslFree<GENERAL_NAMES_free>>;
using ObjectPtr = std::unique_ptr<ASN1_OBJECT, OpensslFree<ASN1_OBJECT_free>>;

/// A certificate may hold any bytes, and they go to a terminal.
std::string shown(const std::string& text) {
    const bool plain =
        std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
    return plain ? text : slipway::quoted(text);
}

std::string alternative_name(const X509* certificate) {
    const NamesPtr names(static_cast<GENERAL_NAMES*>(
        X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
        const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
        if (name->type != GEN_EMAIL && name->type != GEN_URI && name->type != GEN_DNS) continue;
        const ASN1_IA5STRING* text = name->d.ia5;
        return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                static_cast<size_t>(ASN1_STRING_length(text))};
    }
    return {};
}

bool has_extension(const X509* certificate, const char* number) {
    const ObjectPtr object(OBJ_txt2obj(number, 1));
    return object && X509_get_ext_by_OBJ(certificate, object.get(), -1) >= 0;
}

}  // namespace

CertificateClaims claims_of(const std::string& pem) {
    CertificateClaims claims;
    const CertificatePtr certificate(
        PEM_read_bio_X509(reader_of(pem).get(), nullptr, nullptr, nullptr));
    if (certificate) {
        const std::string name = alternative_name(certificate.get());
        claims.identity = name.empty() ? subject_of(certificate.get()) : shown(name);
        claims.keyless =
            std::any_of(std::begin(kFulcioIssuers), std::end(kFulcioIssuers),
                        [&](const char* oid) { return has_extension(certificate.get(), oid); });
    }
    ERR_clear_error();
    return claims;
}

std::string pem_of(const std::string& der) {
    const auto* data = reinterpret_cast<const unsigned char*>(der.data());
    const unsigned char* at = data;
    const CertificatePtr certificate(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
    const BioPtr out(BIO_new(BIO_s_mem()));
    const bool whole = certificate && at == data + der.size() && out &&
                       PEM_write_bio_X509(out.get(), certificate.get()) == 1;
    ERR_clear_error();
    if (!whole) return {};
    char* text = nullptr;
    const long size = BIO_get_mem_data(out.get(), &text);
    return {text, static_cast<size_t>(size)};
}

}  // namespace slipway::image
