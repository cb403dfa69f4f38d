// Requests to one repository of one registry: authentication, redirects, retries. Private to the
// image room.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config.hpp"
#include "http.hpp"
#include "slipway/base/error.hpp"
#include "slipway/image/registry.hpp"

namespace slipway::image {

/// The registry could not be asked: no address, no route, nobody there.
class Unreachable : public Error {
 public:
    using Error::Error;
};

/// One request until its answer, however many times it has to be sent. Subclasses choose what is
/// sent each time and take what comes.
class RegistryRequest {
 public:
    /// Not `patient`: tried again once and at once, and any answer is one.
    explicit RegistryRequest(HttpRequest request, bool patient = true)
        : request_(std::move(request)), patient_(patient) {}
    virtual ~RegistryRequest() = default;
    RegistryRequest(const RegistryRequest&) = delete;
    RegistryRequest& operator=(const RegistryRequest&) = delete;
    const HttpResponse& response() const { return response_; }
    /// Where the answer came from, after redirects.
    const std::string& url() const { return url_; }

 protected:
    /// What is sent now; called before each sending. The address and credentials are added.
    virtual HttpRequest prepare() { return request_; }
    /// The server cannot give the range that was asked for: what now? True: send again.
    virtual bool range_refused() { return false; }
    /// The number of bytes that came in until now: progress makes patience.
    virtual uint64_t received_bytes() const { return 0; }
    /// Forget the answer, to be sent again by the next send_all.
    void begin_anew();
    HttpRequest request_;

 private:
    friend class RegistryClient;
    using Clock = std::chrono::steady_clock;
    std::unique_ptr<HttpTransfer> transfer_;
    HttpResponse response_;
    std::string url_;       ///< absolute; "" before the first sending
    bool foreign_ = false;  ///< redirected to another host: it gets no credentials
    bool done_ = false;
    bool patient_;
    int redirects_ = 0, failures_ = 0, logins_ = 0;
    unsigned login_seen_ = 0;  ///< which authorisation the last sending carried
    uint64_t received_before_ = 0;
    Clock::time_point not_before_{};
};

/// How long to wait after so many failures in a row: twice as long each time, less a random part,
/// so that the ranks of a job do not come back together.
std::chrono::milliseconds retry_delay(int failures);

/// Not for use by several threads. Errors say what to do; credentials go to the registry and to the
/// token service that it names, and to nobody else.
class RegistryClient {
 public:
    /// `actions`: "pull" or "pull,push".
    RegistryClient(RegistryEndpoint endpoint, RegistryReference reference, RegistryAccess access,
                   std::string actions);

    /// "/v2/REPOSITORY/" + rest, as the address of a request.
    std::string path(const std::string& rest) const;
    /// A path as a whole address, by the scheme that the registry speaks.
    std::string absolute(const std::string& path) const { return base() + path; }
    const RegistryEndpoint& endpoint() const { return endpoint_; }
    const RegistryReference& reference() const { return reference_; }
    const RegistryAccess& access() const { return access_; }
    /// Ask for more than the repository itself: "repository:other/image:pull".
    void add_scope(const std::string& scope) { scopes_.push_back(scope); }

    /// Send one request; answers other than 401, 403, 429 and 5xx are the caller's.
    HttpResponse send(HttpRequest request);
    /// Send one request whose failure is bearable: a busy server is asked once more, after a
    /// moment, and every answer is the caller's. Throws: Error for no answer at all.
    HttpResponse ask(HttpRequest request);
    /// Send several, at most `at_once` at a time, to their ends.
    void send_all(const std::vector<RegistryRequest*>& requests, size_t at_once);
    /// An error of a registry's answer, with its own words.
    Error refused(const HttpResponse& response, const std::string& what) const;

 private:
    void launch(RegistryRequest& request);
    void settle(RegistryRequest& request);
    void settle_failure(RegistryRequest& request, const HttpFailure& failure);
    void redirect(RegistryRequest& request, const std::string& location);
    bool retry_later(RegistryRequest& request, const std::string& retry_after);
    void log_in(RegistryRequest& request);
    void fetch_token(const std::map<std::string, std::string>& challenge);
    HttpResponse ask_for_token(const std::string& realm, const std::string& service,
                               const std::vector<std::string>& scopes);
    [[noreturn]] void unreachable(const std::string& url, const HttpFailure& failure) const;
    Error unauthorised(const HttpResponse& response) const;
    /// Whose credentials count: the host that is asked, mirrors included.
    std::string login_host() const;
    std::string base() const { return (http_ ? "http://" : "https://") + endpoint_.host; }

    RegistryEndpoint endpoint_;
    RegistryReference reference_;
    RegistryAccess access_;
    HttpTrust trust_;
    HttpClient http_client_;
    bool http_ = false;  ///< it speaks no https, and need not
    std::vector<std::string> scopes_;
    std::string authorization_;  ///< "Bearer ...", "Basic ..."
    unsigned logins_ = 0;        ///< counts the values of authorization_
    bool had_credentials_ = false;
    std::string credentials_origin_;
};

}  // namespace slipway::image
