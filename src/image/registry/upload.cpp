// Uploads blobs to a registry: what it lacks, in chunks, continued where it broke.
// Must not: name anything there.
#include "upload.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr uint64_t kChunkBytes = 32u << 20;
constexpr int kMostUploads = 3;

/// "0-1023" as the number of bytes that have arrived; 0 for anything else.
uint64_t arrived(const std::string& range) {
    const size_t dash = range.rfind('-');
    uint64_t last = 0;
    if (dash == std::string::npos) return 0;
    const char* begin = range.data() + dash + 1;
    if (std::from_chars(begin, range.data() + range.size(), last).ec != std::errc()) return 0;
    return last + 1;
}

/// One blob on its way to the registry.
class Upload {
 public:
    Upload(RegistryClient& client, const BlobSource& blobs, const Digest& digest,
           Progress& progress)
        : client_(client),
          digest_(digest),
          progress_(progress),
          file_(blobs.open_blob(digest)),
          size_(static_cast<uint64_t>(sys::fstat(file_.get(), digest.text()).st_size)) {}

    uint64_t run(const std::string& from) {
        HttpRequest request;
        request.method = "HEAD";
        request.url = client_.path("blobs/" + digest_.text());
        if (client_.send(std::move(request)).success()) return 0;
        for (int i = 1;; ++i) {
            if (!begin(i == 1 ? from : "")) return 0;
            if (send_chunks()) break;
            if (i == kMostUploads)
                throw Error(ErrorKind::io, fmt::format("{} loses the upload of {}",
                                                       client_.endpoint().host, digest_.text()))
                    .hint("try again later");
        }
        return size_;
    }

 private:
    /// Ask for a place to upload to; false if the blob was mounted from elsewhere.
    bool begin(const std::string& from) {
        HttpRequest request;
        request.method = "POST";
        request.url = client_.path("blobs/uploads/");
        if (!from.empty())
            request.url += "?mount=" + digest_.text() + "&from=" + percent_encoded(from);
        const std::string asked = request.url;
        const HttpResponse response = client_.send(std::move(request));
        if (response.status == 201) {
            log::verbose("{} was mounted from {}", digest_.text(), from);
            return false;
        }
        if (response.status != 202)
            throw client_.refused(response,
                                  fmt::format("{} takes no upload", client_.endpoint().host));
        place_ = client_.absolute(asked);
        move_to(response);
        uint64_t least = 0;
        const std::string text = response.header("oci-chunk-min-length");
        std::from_chars(text.data(), text.data() + text.size(), least);
        chunk_ = std::max(kChunkBytes, least);
        sent_ = 0;
        return true;
    }

    /// Every answer names the place of the next request.
    void move_to(const HttpResponse& response) {
        const std::string location = response.header("location");
        if (!location.empty()) place_ = resolve_url(place_, location);
    }

    /// False when the registry knows nothing of this upload any more.
    bool send_chunks() {
        int stuck = 0;
        while (sent_ < size_) {
            const uint64_t size = std::min(chunk_, size_ - sent_);
            HttpRequest request;
            request.method = "PATCH";
            request.url = place_;
            request.headers = {"Content-Type: application/octet-stream",
                               fmt::format("Content-Range: {}-{}", sent_, sent_ + size - 1)};
            request.body_fd = file_.get();
            request.body_offset = sent_;
            request.body_bytes = size;
            const HttpResponse response = client_.send(std::move(request));
            const uint64_t before = sent_;
            if (response.status == 404) return false;
            if (response.status == 416) {
                if (!ask_how_far()) return false;
            } else if (!response.success()) {
                throw client_.refused(response, "a layer was not taken");
            } else {
                move_to(response);
                sent_ += size;
            }
            if (sent_ > before) progress_.add(sent_ - before);
            stuck = sent_ > before ? 0 : stuck + 1;
            if (stuck == kMostUploads) return false;
        }
        return finish();
    }

    /// A part of a chunk arrived before the connection broke: how much?
    bool ask_how_far() {
        HttpRequest request;
        request.url = place_;
        const HttpResponse response = client_.send(std::move(request));
        if (response.status != 204) return false;
        move_to(response);
        sent_ = std::min(size_, arrived(response.header("range")));
        return true;
    }

    bool finish() {
        HttpRequest request;
        request.method = "PUT";
        request.url = place_ + (place_.find('?') == std::string::npos ? "?" : "&") +
                      "digest=" + percent_encoded(digest_.text());
        const HttpResponse response = client_.send(std::move(request));
        if (response.status == 404) return false;
        if (!response.success())
            throw client_.refused(response, fmt::format("{} was not taken", digest_.text()));
        return true;
    }

    RegistryClient& client_;
    Digest digest_;
    Progress& progress_;
    UniqueFd file_;
    uint64_t size_, sent_ = 0, chunk_ = kChunkBytes;
    std::string place_;
};

}  // namespace

uint64_t upload_blob(RegistryClient& client, const BlobSource& blobs, const Digest& digest,
                     Progress& progress, const std::string& from) {
    return Upload(client, blobs, digest, progress).run(from);
}

}  // namespace slipway::image
