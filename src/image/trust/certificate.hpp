// What a signer's certificate says of itself. Private to the image room.
#pragma once

#include <string>

namespace slipway::image {

/// A certificate's claims, none of which is checked here.
struct CertificateClaims {
    std::string identity;  ///< an address or URI, else the subject; quoted where it is odd
    bool keyless = false;  ///< issued by a Fulcio for minutes: it says who has logged in where
};
/// Read the first certificate of a PEM text; empty for what is none.
CertificateClaims claims_of(const std::string& pem);
/// A DER certificate as PEM; "" for what is none.
std::string pem_of(const std::string& der);

}  // namespace slipway::image
