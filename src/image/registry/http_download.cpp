// Brings one file from a web server, over broken connections.
// Must not: judge the contents.
#include "http_download.hpp"

#include <fmt/format.h>

#include <charconv>
#include <thread>

#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr int kMostRedirects = 10;
constexpr int kMostFailures = 5;
constexpr auto kFirstDelay = std::chrono::milliseconds(200);

/// One download: where it stands, and what came of the last attempt.
class Transfer {
 public:
    Transfer(HttpClient& client, const std::string& url, int fd, const std::string& path,
             std::optional<uint64_t> largest, Progress& progress)
        : client_(client),
          first_url_(url),
          url_(url),
          fd_(fd),
          path_(path),
          largest_(largest),
          progress_(progress),
          have_(static_cast<uint64_t>(sys::fstat(fd, path).st_size)) {}

    void run() {
        while (!attempt()) {
        }
    }

 private:
    /// True when the whole file is there.
    bool attempt() {
        HttpRequest request;
        request.url = url_;
        request.headers.push_back("Accept-Encoding: identity");
        if (have_ > 0) request.headers.push_back(fmt::format("Range: bytes={}-", have_));
        begun_ = false;
        const uint64_t before = have_;
        request.sink = [this](const HttpResponse& head, std::string_view piece) {
            take(head, piece);
        };
        const auto transfer = client_.start(std::move(request));
        while (!transfer->finished()) client_.wait(std::chrono::milliseconds(1000));
        transfer->rethrow();
        if (have_ > before) failures_ = 0;
        const HttpFailure& failure = transfer->failure();
        if (failure.kind != HttpFailure::Kind::none) return failed(failure);
        return answered(transfer->response(), before);
    }

    bool answered(const HttpResponse& head, uint64_t before) {
        if (head.success()) return ended(head, before);
        if (head.status >= 300 && head.status < 400 && !head.header("location").empty())
            return redirected(head.header("location"));
        if (head.status == 416 && have_ > 0) return refused_range(head);
        if (head.status == 429 || head.status >= 500) {
            if (again(fmt::format("status {}", head.status))) return false;
            throw problem(ErrorKind::io, fmt::format("the server answers {}", head.status))
                .hint("try again later: what came is kept, and continued");
        }
        const bool absent = head.status == 404 || head.status == 410;
        throw problem(
            absent ? ErrorKind::not_found : ErrorKind::io,
            absent ? "it is not there (404)" : fmt::format("the server answers {}", head.status))
            .hint(absent ? "correct the URL in the catalogue entry"
                         : "open the URL with a browser: it may ask for a login or a licence");
    }

    /// How long the whole is, by the server's word or else the catalogue entry's.
    std::optional<uint64_t> whole_bytes(const HttpResponse& head) const {
        std::string text = head.header("content-length");
        if (head.status == 206) {
            const std::string range = head.header("content-range");
            text = range.substr(range.find('/') + 1);
        }
        uint64_t bytes = 0;
        const char* end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, bytes);
        if (text.empty() || error != std::errc() || stop != end) return largest_;
        return bytes;
    }

    /// An answer that ended well may still be a part only: a server that tells no length ends by
    /// closing (HTTP/1.0), and one may give less than the range that was asked for.
    bool ended(const HttpResponse& head, uint64_t before) {
        const auto whole = whole_bytes(head);
        if (!begun_ && have_ > 0 && head.status == 200 && whole.value_or(0) == 0)
            restart();  // the whole, and it is empty
        if (!whole || have_ >= *whole) return true;
        const std::string why = fmt::format("the answer ends after {} of {} bytes", have_, *whole);
        if (head.status == 206 && have_ > before) {  // it gives pieces: no reason to wait
            log::debug("{}: {}", url_, why);
            begin_again();
            return false;
        }
        if (again(why)) return false;
        throw problem(ErrorKind::io, why).hint("try again: what came is kept, and continued");
    }

    /// Nothing lies behind what we have: it may be whole. "bytes */SIZE" says how long it is.
    bool refused_range(const HttpResponse& head) {
        if (head.header("content-range") == fmt::format("bytes */{}", have_)) return true;
        if (restarted_) throw problem(ErrorKind::io, "the server refuses every part (416)");
        restarted_ = true;
        restart();
        return false;
    }

    bool redirected(const std::string& location) {
        if (++redirects_ > kMostRedirects)
            throw problem(ErrorKind::io, fmt::format("more than {} redirections", kMostRedirects));
        const std::string next = resolve_url(url_, location);
        if (url_.starts_with("https:") && !next.starts_with("https:"))
            throw problem(ErrorKind::io, fmt::format("it leads from https to {}", next))
                .hint("name the new address in the catalogue entry, if you trust it");
        log::debug("{} leads to {}", url_, next);
        url_ = next;
        return false;
    }

    bool failed(const HttpFailure& failure) {
        const bool may_pass = failure.kind == HttpFailure::Kind::cut ||
                              failure.kind == HttpFailure::Kind::silent ||
                              failure.kind == HttpFailure::Kind::other;
        if (may_pass && again(failure.text)) return false;
        throw problem(ErrorKind::io, failure.text)
            .hint(failure.kind == HttpFailure::Kind::certificate
                      ? "check the address; for an authority of your site's own set SSL_CERT_FILE"
                      : "try again: what came is kept, and continued");
    }

    /// Wait a little and try again; false when it was tried often enough.
    bool again(const std::string& why) {
        if (++failures_ >= kMostFailures) return false;
        log::verbose("{}: {}; trying again after {} bytes", url_, why, have_);
        std::this_thread::sleep_for(kFirstDelay * (1 << failures_));
        begin_again();
        return true;
    }

    void begin_again() {
        url_ = first_url_;  // a redirection may have pointed to a part that is gone
        redirects_ = 0;
    }

    void restart() {
        sys::ftruncate(fd_, 0, path_);
        have_ = 0;
    }

    void take(const HttpResponse& head, std::string_view piece) {
        if (!begun_) {
            begun_ = true;
            if (have_ > 0 && head.status != 206) restart();  // the whole, not a part
            const std::string wanted = fmt::format("bytes {}-", have_);
            if (head.status == 206 && !head.header("content-range").starts_with(wanted))
                throw problem(ErrorKind::io, "the server sends another part than was asked for")
                    .note(
                        fmt::format("it says: {}", slipway::quoted(head.header("content-range"))));
        }
        if (largest_ && piece.size() > *largest_ - std::min(have_, *largest_)) {
            restart();
            throw problem(ErrorKind::io,
                          fmt::format("it is larger than the {} bytes expected", *largest_))
                .hint("correct \"size\" in the catalogue entry, or the URL");
        }
        sys::pwrite_all(fd_, piece.data(), piece.size(), have_, path_);
        have_ += piece.size();
        progress_.add(piece.size());
    }

    Error problem(ErrorKind kind, const std::string& why) const {
        Error error(kind, fmt::format("cannot download {}: {}", slipway::quoted(first_url_), why));
        if (url_ != first_url_) error.note("redirected to " + url_);
        return error;
    }

    HttpClient& client_;
    const std::string first_url_;
    std::string url_;
    const int fd_;
    const std::string& path_;
    const std::optional<uint64_t> largest_;
    Progress& progress_;
    uint64_t have_;
    int redirects_ = 0, failures_ = 0;
    bool begun_ = false, restarted_ = false;
};

}  // namespace

void download(HttpClient& client, const std::string& url, int fd, const std::string& path,
              std::optional<uint64_t> largest, Progress& progress) {
    Transfer(client, url, fd, path, largest, progress).run();
}

}  // namespace slipway::image
