// What lies beside an image and is about it: cosign's signatures, Sigstore bundles. Small
// documents, which travel with the image between layouts, archives, the store and registries.
// Private to the image room.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../oci/model.hpp"
#include "slipway/image/signature.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// All that is known to be about one manifest or index. In memory: every part is bounded.
struct Attached {
    Descriptor subject;
    std::string subject_text;              ///< its bytes
    bool is_index = false;                 ///< the subject names the image among others
    std::optional<Descriptor> signatures;  ///< cosign's manifest
    std::vector<Descriptor> referrers;     ///< manifests of bundles, as an index lists them
    std::map<Digest, std::string> texts;   ///< of those, their configs, signed texts and bundles
    std::vector<std::string> problems;     ///< what was passed over, and why

    bool empty() const { return !signatures && referrers.empty(); }
};

/// Gives a small document; throws where it is missing or not what its digest says.
using ReadDocument = std::function<std::string(const Descriptor&, bool is_manifest)>;

/// "sha256-HEX.sig" and "sha256-HEX", where referrers are listed if nothing else lists them; and
/// "sha256-HEX.index" for an index that lies beside the image that was taken from it.
std::string signature_tag(const Digest& subject);
std::string referrers_tag(const Digest& subject);
std::string index_tag(const Digest& subject);
/// Whether a tag is one of these, of whatever digest.
bool is_attachment_tag(const std::string& tag);
/// Whether what an index says of a referrer allows it to be a bundle. Cosign 3 lists its own with
/// the type of their empty config (go-containerregistry), so that only the manifest tells.
bool may_be_bundle(const Descriptor& referrer);

/// Take cosign's manifest and what it names.
void take_signatures(Attached& attached, const Descriptor& manifest, const ReadDocument& read);
/// Take a manifest and what it names, if it holds bundles and is about the subject; what is wrong
/// with it is noted in `problems`.
void take_referrer(Attached& attached, const Descriptor& manifest, const ReadDocument& read);
/// Take over what `from` has and `into` has not.
void merge(Attached& into, const Attached& from);
/// Sign the subject, whatever signatures it has.
void add_signature(Attached& attached, const std::string& name, const SigningKey& key);
/// An index that lists the referrers, after what `old` (null: nothing) lists already.
std::string referrers_index(const Json& old, const std::vector<Descriptor>& referrers);

/// What is in the image's layout, archive or store about its manifest, and about the indexes there
/// that name it; subjects that nothing is attached to are left out.
std::vector<Attached> attached_to(const OciImage& image);
/// The same of one manifest or index; may be empty.
Attached attached_to(const BlobSource& blobs, const std::vector<Descriptor>& entries,
                     const Descriptor& subject);
/// Put into a layout, beside what is there. The caller holds whatever lock guards the index.
void put_attached(const std::string& layout, const std::string& temporary, Attached attached);
/// The same in the store, under its lock.
void put_attached(const Store& store, const std::vector<Attached>& attached);
/// The documents and tags that stand for it in a layout, whose index of referrers was `old`.
struct LaidOut {
    std::map<Digest, std::string> texts;
    std::vector<std::pair<std::string, Descriptor>> tags;
};
LaidOut lay_out(const Attached& attached, const Json& old = {});
/// An index without what is about images that it names no more.
Json without_stale(const Json& index, const BlobSource& blobs);

/// Who of those that are believed signed one of the subjects. Throws: Error(invalid_image) when
/// nobody did, saying who did; `how_to_sign` is the hint where nobody did at all.
SignatureReport judge_attached(const std::vector<Attached>& attached, const TrustedKeys& trusted,
                               const std::string& subject, const std::string& how_to_sign);

}  // namespace slipway::image
