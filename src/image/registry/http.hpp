// HTTP requests, several at once, on one thread. Private to the image room.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "slipway/base/fd.hpp"

namespace slipway::image {

struct HttpResponse {
    long status = 0;
    std::map<std::string, std::string> headers;  ///< names in lower case; the last one counts
    std::string body;                            ///< what no sink took, at most 16 MiB
    std::string header(const std::string& name) const;  ///< "" if absent
    bool success() const { return status >= 200 && status < 300; }
};

/// Whom to trust, and who we are, towards one host.
struct HttpTrust {
    bool verify = true;                          ///< check the certificate and the name in it
    std::shared_ptr<UniqueFd> certificates;      ///< PEM, trusted instead of the system's bundle
    std::string client_certificate, client_key;  ///< files
};

struct HttpRequest {
    std::string method = "GET";
    std::string url;
    std::vector<std::string> headers;  ///< "Name: value"
    HttpTrust trust;
    std::string body;
    int body_fd = -1;  ///< the body comes from here instead: `body_bytes` from `body_offset`
    uint64_t body_offset = 0, body_bytes = 0;
    /// Takes the body of an answer with status 2xx piece by piece; called on the thread that waits.
    std::function<void(const HttpResponse& head, std::string_view piece)> sink;
};

/// Why no answer came.
struct HttpFailure {
    enum class Kind {
        none,
        resolve,      ///< the host has no address
        connect,      ///< nobody listens, or no route
        silent,       ///< nobody answered the greeting in time
        certificate,  ///< the host is not whom we trust
        tls,          ///< it does not speak TLS as we do
        cut,          ///< the connection ended or stalled within the answer
        other
    } kind = Kind::none;
    std::string text;
};

/// One request on its way. Destroying it gives it up.
class HttpTransfer {
 public:
    ~HttpTransfer();
    bool finished() const;
    const HttpResponse& response() const;
    const HttpFailure& failure() const;
    /// Rethrow what the sink threw, if it did.
    void rethrow() const;

 private:
    friend class HttpClient;
    struct State;
    explicit HttpTransfer(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

/// Redirects are not followed, nothing is tried again, and no answer is an error: that is the
/// caller's. Proxies: as libcurl takes them from the environment. A transfer without a byte for
/// $SLIPWAY_HTTP_TIMEOUT seconds (60) counts as cut. Not for use by several threads.
class HttpClient {
 public:
    HttpClient();
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;
    /// The client must outlive the transfer.
    std::unique_ptr<HttpTransfer> start(HttpRequest request);
    /// Move data until a transfer finishes or the time is up.
    void wait(std::chrono::milliseconds timeout);
    HttpResponse perform(HttpRequest request, HttpFailure& failure);

 private:
    struct State;
    std::unique_ptr<State> state_;
};

/// `location` as seen from `base`. Throws: Error(io) for what is no http or https URL.
std::string resolve_url(const std::string& base, const std::string& location);
/// "https://host:443" of a URL.
std::string origin_of(const std::string& url);
/// A text as part of a query: everything but letters, digits, "-", ".", "_", "~" as %XX.
std::string percent_encoded(std::string_view text);

}  // namespace slipway::image
