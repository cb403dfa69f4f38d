// Downloads layers: in parts, in parallel, and checked.
// Must not: give a blob its place in the store before its digest was found right.
#include "blobs.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr size_t kAtOnce = 4;

/// "bytes 100-199/200": where the answer begins, or npos.
uint64_t range_start(const std::string& header) {
    if (!header.starts_with("bytes ")) return std::string::npos;
    uint64_t start = 0;
    size_t at = 6;
    if (at == header.size() || header[at] < '0' || header[at] > '9') return std::string::npos;
    for (; at < header.size() && header[at] >= '0' && header[at] <= '9'; ++at)
        start = start * 10 + static_cast<uint64_t>(header[at] - '0');
    return start;
}

/// One layer, gathered in a file that outlives a broken download.
class Download : public RegistryRequest {
 public:
    Download(const RegistryClient& client, const Layer& layer, Store& store, Progress& progress)
        : RegistryRequest(HttpRequest{}),
          host_(client.endpoint().host),
          layer_(layer),
          store_(store),
          progress_(progress),
          lock_(store.blob_lock(layer.digest)),
          path_(store.partial_blob(layer.digest)) {
        request_.url = client.path("blobs/" + layer.digest.text());
        if (store.has_blob(layer.digest)) return;  // somebody else was faster
        file_ = sys::open(path_, O_RDWR | O_CREAT, 0600);
        take_up();
    }

    bool needed() const { return static_cast<bool>(file_); }
    /// All bytes had come, and only the check was left.
    bool complete() const { return missing_bytes() == 0; }
    uint64_t missing_bytes() const { return layer_.size_bytes - have_; }
    uint64_t fetched_bytes() const { return fetched_; }

    /// Check the layer and give it its place; false: it was continued from a part that was wrong,
    /// and has to be fetched from its beginning.
    bool finish() {
        const Digest found = hash_.finish();
        if (have_ == layer_.size_bytes && found == layer_.digest) {
            store_.adopt_blob(layer_.digest, file_.get(), path_);
            return true;
        }
        if (continued_) {
            log::verbose("the kept part of {} was wrong", layer_.digest.text());
            restart();
            begin_anew();
            return false;
        }
        ::unlink(path_.c_str());
        throw Error(
            ErrorKind::invalid_image,
            fmt::format("{} sent something else than the layer {}", host_, layer_.digest.text()))
            .note(have_ == layer_.size_bytes
                      ? fmt::format("its digest is {}", found.text())
                      : fmt::format("it has {} bytes instead of {}", have_, layer_.size_bytes))
            .hint("try again; if it stays so, the registry or a proxy before it is damaged");
    }

 protected:
    HttpRequest prepare() override {
        HttpRequest request = request_;
        begun_ = false;
        if (have_ > 0) request.headers.push_back(fmt::format("Range: bytes={}-", have_));
        request.sink = [this](const HttpResponse& head, std::string_view piece) {
            take(head, piece);
        };
        return request;
    }

    bool range_refused() override {
        if (have_ == 0) return false;
        restart();
        return true;
    }

    uint64_t received_bytes() const override { return fetched_; }

 private:
    /// Continue what an earlier process left.
    void take_up() {
        const auto size = static_cast<uint64_t>(sys::fstat(file_.get(), path_).st_size);
        if (size > layer_.size_bytes) return restart();
        std::vector<char> buffer(1 << 20);
        while (size_t got = sys::read(file_.get(), buffer.data(), buffer.size(), path_)) {
            hash_.update(buffer.data(), got);
            have_ += got;
        }
        continued_ = have_ > 0;
        if (continued_) log::verbose("continuing {} after {} bytes", layer_.digest.text(), have_);
    }

    void restart() {
        sys::ftruncate(file_.get(), 0, path_);
        hash_ = Sha256();
        have_ = 0;
        continued_ = false;
    }

    void take(const HttpResponse& head, std::string_view piece) {
        if (!begun_) {
            begun_ = true;
            if (have_ > 0 && head.status != 206) restart();  // it gives the whole instead
            if (head.status == 206 && range_start(head.header("content-range")) != have_) {
                throw Error(ErrorKind::io,
                            fmt::format("{} sends another part of {} than was asked for", host_,
                                        layer_.digest.text()))
                    .note(fmt::format("it says: {}", slipway::quoted(head.header("content-range"))))
                    .hint("try again");
            }
        }
        if (piece.size() > layer_.size_bytes - have_) {
            ::unlink(path_.c_str());
            throw Error(ErrorKind::invalid_image,
                        fmt::format("{} sends more than the {} bytes of the layer {}", host_,
                                    layer_.size_bytes, layer_.digest.text()))
                .hint("try again; if it stays so, the registry or a proxy before it is damaged");
        }
        try {
            sys::pwrite_all(file_.get(), piece.data(), piece.size(), have_, path_);
        } catch (const Error& error) {
            if (error.kind() == ErrorKind::no_space) ::unlink(path_.c_str());
            throw;
        }
        hash_.update(piece.data(), piece.size());
        have_ += piece.size();
        fetched_ += piece.size();
        progress_.add(piece.size());
    }

    std::string host_;
    const Layer& layer_;
    Store& store_;
    Progress& progress_;
    FileLock lock_;
    std::string path_;
    UniqueFd file_;
    Sha256 hash_;
    uint64_t have_ = 0, fetched_ = 0;
    bool begun_ = false, continued_ = false;
};

}  // namespace

uint64_t fetch_layers(RegistryClient& client, const std::vector<Layer>& layers, Store& store) {
    // By digest: locks are taken in one order everywhere, and a layer that occurs twice once.
    std::map<Digest, const Layer*> wanted;
    for (const Layer& layer : layers)
        if (!store.has_blob(layer.digest)) wanted.emplace(layer.digest, &layer);
    Progress progress("pulling " + client.reference().text(), 0, Progress::Unit::bytes);
    std::vector<std::unique_ptr<Download>> downloads;
    for (const auto& [digest, layer] : wanted) {
        auto download = std::make_unique<Download>(client, *layer, store, progress);
        if (download->needed()) downloads.push_back(std::move(download));
    }
    uint64_t fetched = 0, total = 0;
    for (const auto& download : downloads) total += download->missing_bytes();
    progress.set_total(total);
    while (!downloads.empty()) {
        std::vector<Download*> unfinished;
        for (const auto& download : downloads)
            if (!download->complete()) unfinished.push_back(download.get());
        // The largest first: the small ones fill the time that is left.
        std::stable_sort(unfinished.begin(), unfinished.end(), [](Download* a, Download* b) {
            return a->missing_bytes() > b->missing_bytes();
        });
        client.send_all({unfinished.begin(), unfinished.end()}, kAtOnce);
        for (const Download* download : unfinished)
            if (!download->response().success())
                throw client.refused(download->response(), "the registry lacks a layer")
                    .hint("push the image again, or pull another tag");
        std::erase_if(downloads, [&](const auto& download) {
            if (!download->finish()) return false;
            fetched += download->fetched_bytes();
            return true;
        });
    }
    progress.finish();
    return fetched;
}

}  // namespace slipway::image
