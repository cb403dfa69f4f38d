// Signatures beside images in layouts, archives and the store: where they lie in an index.json.
// Must not: judge them.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "../store/use.hpp"
#include "attached.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

ReadDocument reader_of(const BlobSource& blobs) {
    return [&blobs](const Descriptor& descriptor, bool) {
        return read_blob(blobs, descriptor, "the signatures");
    };
}

/// Whether an index, or one within it, names a manifest. What cannot be read names nothing: an
/// image of one platform out of several comes without the others.
bool names(const BlobSource& blobs, const Descriptor& index, const std::set<Digest>& wanted,
           int depth = 0) {
    if (depth == kMaxIndexDepth || !is_index_type(index.media_type)) return false;
    try {
        const auto inner =
            parse_index(parse_json(read_blob(blobs, index, "an index"), "an index"), "an index");
        return std::any_of(inner.begin(), inner.end(), [&](const Descriptor& item) {
            return wanted.contains(item.digest) || names(blobs, item, wanted, depth + 1);
        });
    } catch (const Error& error) {
        log::verbose("the index {} cannot be read: {}", index.digest.text(), error.message());
        return false;
    }
}

/// A document of the blobs with its size, whatever its type.
Descriptor described(const BlobSource& blobs, const Digest& digest) {
    Descriptor descriptor;
    descriptor.media_type = kManifestType;
    descriptor.digest = digest;
    descriptor.size_bytes =
        static_cast<uint64_t>(sys::fstat(blobs.open_blob(digest).get(), digest.text()).st_size);
    return descriptor;
}

/// The index of referrers that a layout has for a subject; null if it has none.
Json list_of(const BlobSource& blobs, const std::vector<Descriptor>& entries,
             const Digest& subject) {
    for (const Descriptor& entry : entries)
        if (entry.tag == referrers_tag(subject) && is_index_type(entry.media_type))
            return parse_json(read_blob(blobs, entry, "the list of referrers"),
                              "the list of referrers");
    return {};
}

Descriptor put_text(LaidOut& laid, const std::string& text, const std::string& media_type) {
    Descriptor descriptor;
    descriptor.media_type = media_type;
    descriptor.digest = sha256(text);
    descriptor.size_bytes = text.size();
    laid.texts[descriptor.digest] = text;
    return descriptor;
}

}  // namespace

Attached attached_to(const BlobSource& blobs, const std::vector<Descriptor>& entries,
                     const Descriptor& subject) {
    Attached attached;
    attached.subject = subject;
    attached.subject_text = read_blob(blobs, subject, "the image");
    const ReadDocument read = reader_of(blobs);
    for (const Descriptor& entry : entries) {
        if (entry.tag == signature_tag(subject.digest)) try {
                take_signatures(attached, entry, read);
            } catch (const Error& error) {
                attached.problems.push_back(error.message());
            }
        // Some tools list what refers to an image beside it, and not under a tag.
        if (entry.json.contains("artifactType") && may_be_bundle(entry))
            take_referrer(attached, entry, read);
    }
    const Json list = list_of(blobs, entries, subject.digest);
    if (list.is_object())
        for (const Descriptor& referrer : parse_index(list, "the list of referrers"))
            if (may_be_bundle(referrer)) take_referrer(attached, referrer, read);
    return attached;
}

std::vector<Attached> attached_to(const OciImage& image) {
    const auto* indexed = dynamic_cast<const IndexedBlobs*>(image.blobs.get());
    if (indexed == nullptr || image.manifest_digest.empty()) return {};
    const auto entries = parse_index(indexed->index(), "the layout");
    std::vector<Attached> found = {
        attached_to(*indexed, entries, described(*indexed, image.manifest_digest))};
    std::set<Digest> seen;
    for (const Descriptor& entry : entries) {
        // A list of referrers is an index, too, and says nothing of what it lists.
        const bool list = is_attachment_tag(entry.tag) && entry.tag != index_tag(entry.digest);
        if (list || !seen.insert(entry.digest).second ||
            !names(*indexed, entry, {image.manifest_digest}))
            continue;
        found.push_back(attached_to(*indexed, entries, entry));
        found.back().is_index = true;
    }
    std::erase_if(found, [](const Attached& one) { return one.empty() && one.problems.empty(); });
    return found;
}

LaidOut lay_out(const Attached& attached, const Json& old) {
    LaidOut laid;
    laid.texts = attached.texts;
    const Digest& subject = attached.subject.digest;
    if (attached.is_index)
        laid.tags.emplace_back(index_tag(subject),
                               put_text(laid, attached.subject_text, attached.subject.media_type));
    if (attached.signatures) laid.tags.emplace_back(signature_tag(subject), *attached.signatures);
    if (!attached.referrers.empty())
        laid.tags.emplace_back(
            referrers_tag(subject),
            put_text(laid, referrers_index(old, attached.referrers), kIndexType));
    return laid;
}

void put_attached(const std::string& layout, const std::string& temporary, Attached attached) {
    LayoutWriter writer(layout, temporary);
    if (attached.is_index) writer.put(attached.subject_text, attached.subject.media_type);
    const auto blobs = open_layout_blobs(layout);
    const auto entries = parse_index(read_layout_index(layout), slipway::quoted(layout));
    Attached all = attached_to(*blobs, entries, attached.subject);
    merge(all, attached);
    // An index that the layout has under a name needs none of ours.
    all.is_index = attached.is_index &&
                   std::none_of(entries.begin(), entries.end(), [&](const Descriptor& entry) {
                       return entry.digest == attached.subject.digest;
                   });
    const LaidOut laid = lay_out(all, list_of(*blobs, entries, attached.subject.digest));
    for (const auto& [digest, text] : laid.texts) writer.put(text, "");
    for (const auto& [tag, descriptor] : laid.tags) writer.set_tag(tag, descriptor);
}

void put_attached(const Store& store, const std::vector<Attached>& attached) {
    if (attached.empty()) return;
    store.begin_use();
    const FileLock lock = lock_index(store);
    for (const Attached& one : attached)
        put_attached(join_path(store.directory(), "oci"), store.subdirectory("tmp"), one);
}

Json without_stale(const Json& index, const BlobSource& blobs) {
    const auto entries = parse_index(index, "the store's index");
    std::set<Digest> live;
    for (const Descriptor& entry : entries)
        if (!is_attachment_tag(entry.tag)) live.insert(entry.digest);
    std::set<std::string> tags;
    const std::set<Digest> named = live;
    for (const Descriptor& entry : entries)
        if (entry.tag == index_tag(entry.digest) && names(blobs, entry, named))
            live.insert(entry.digest);
    for (const Digest& digest : live)
        for (const auto& tag : {signature_tag(digest), referrers_tag(digest), index_tag(digest)})
            tags.insert(tag);
    Json kept = index;
    kept["manifests"] = Json::array();
    for (const Descriptor& entry : entries)
        if (!is_attachment_tag(entry.tag) || tags.contains(entry.tag))
            kept["manifests"].push_back(entry.json);
    return kept;
}

}  // namespace slipway::image
