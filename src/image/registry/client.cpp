// Sends requests to a registry until they are answered.
// Must not: give credentials to a host that the registry redirects to, or retry what cannot
// succeed.
#include "client.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "../oci/model.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/log.hpp"

namespace slipway::image {
namespace {

using std::chrono::milliseconds;

constexpr int kMostRedirects = 10;
constexpr int kMostFailures = 6;  // in a row without a byte: about 8 seconds
constexpr milliseconds kFirstDelay{250};
constexpr milliseconds kLongestDelay{60'000};

bool is_redirect(long status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// What may pass if one waits.
bool is_temporary(long status) {
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
           status == 504;
}

bool is_temporary(HttpFailure::Kind kind) {
    return kind == HttpFailure::Kind::cut || kind == HttpFailure::Kind::connect;
}

/// What the registry says is wrong: {"errors":[{"code","message"}]}.
std::string words_of(const HttpResponse& response) {
    const Json json = parse_foreign(response.body);
    if (!json.is_object()) return {};
    const auto errors = json.find("errors");
    if (errors == json.end() || !errors->is_array() || errors->empty()) return {};
    const Json& first = errors->front();
    if (!first.is_object() || !first.contains("message") || !first["message"].is_string())
        return {};
    return first["message"].get<std::string>();
}

}  // namespace

milliseconds retry_delay(int failures) {
    static std::minstd_rand random{std::random_device{}()};
    const double part = 0.5 + 0.5 * static_cast<double>(random()) / std::minstd_rand::max();
    const auto whole = kFirstDelay * (1 << (std::min(failures, 10) - 1));
    return std::min(kLongestDelay, std::chrono::duration_cast<milliseconds>(part * whole));
}

void RegistryRequest::begin_anew() {
    response_ = {};
    url_.clear();
    foreign_ = done_ = false;
    redirects_ = failures_ = logins_ = 0;
}

RegistryClient::RegistryClient(RegistryEndpoint endpoint, RegistryReference reference,
                               RegistryAccess access, std::string actions)
    : endpoint_(std::move(endpoint)),
      reference_(std::move(reference)),
      access_(std::move(access)),
      scopes_{fmt::format("repository:{}:{}", endpoint_.repository, actions)} {
    if (access_.verify_tls) {
        endpoint_.verify = *access_.verify_tls;
        endpoint_.plain_http = !*access_.verify_tls;
    }
    trust_ = trust_of(endpoint_);
}

std::string RegistryClient::login_host() const {
    return endpoint_.host == "registry-1.docker.io" ? "docker.io" : endpoint_.host;
}

std::string RegistryClient::path(const std::string& rest) const {
    return fmt::format("/v2/{}/{}", endpoint_.repository, rest);
}

HttpResponse RegistryClient::send(HttpRequest request) {
    RegistryRequest one(std::move(request));
    send_all({&one}, 1);
    return one.response();
}

HttpResponse RegistryClient::ask(HttpRequest request) {
    RegistryRequest one(std::move(request), false);
    send_all({&one}, 1);
    return one.response();
}

void RegistryClient::send_all(const std::vector<RegistryRequest*>& requests, size_t at_once) {
    using Clock = RegistryRequest::Clock;
    while (true) {
        const auto now = Clock::now();
        size_t running = 0, waiting = 0;
        auto wake = now + std::chrono::seconds(1);
        for (RegistryRequest* request : requests) running += request->transfer_ != nullptr;
        for (RegistryRequest* request : requests) {
            if (request->done_ || request->transfer_) continue;
            ++waiting;
            if (request->not_before_ > now) {
                wake = std::min(wake, request->not_before_);
            } else if (running < at_once) {
                launch(*request);
                ++running;
            }
        }
        if (running == 0 && waiting == 0) return;
        http_client_.wait(std::chrono::ceil<milliseconds>(wake - now));
        for (RegistryRequest* request : requests)
            if (request->transfer_ && request->transfer_->finished()) settle(*request);
    }
}

void RegistryClient::launch(RegistryRequest& request) {
    HttpRequest sent = request.prepare();
    if (request.url_.empty())
        request.url_ = sent.url.starts_with("/") ? base() + sent.url : sent.url;
    // An upload's address may be another host's.
    if (origin_of(request.url_) != origin_of(base())) request.foreign_ = true;
    sent.url = request.url_;
    if (!request.foreign_) {
        sent.trust = trust_;
        request.login_seen_ = logins_;
        if (!authorization_.empty()) sent.headers.push_back("Authorization: " + authorization_);
    }
    log::debug("{} {}", sent.method, sent.url.substr(0, sent.url.find('?')));
    request.received_before_ = request.received_bytes();
    request.transfer_ = http_client_.start(std::move(sent));
}

void RegistryClient::settle(RegistryRequest& request) {
    const auto transfer = std::move(request.transfer_);
    transfer->rethrow();
    if (request.received_bytes() > request.received_before_) request.failures_ = 0;
    if (transfer->failure().kind != HttpFailure::Kind::none)
        return settle_failure(request, transfer->failure());
    const HttpResponse& response = request.response_ = transfer->response();
    const long status = response.status;
    if (is_redirect(status) && !response.header("location").empty())
        return redirect(request, response.header("location"));
    if (status == 416 && request.range_refused()) return;
    if (request.foreign_ && (status == 401 || status == 403) && request.failures_ < 2) {
        // An address that was signed for a time: ask the registry for a new one.
        ++request.failures_;
        request.foreign_ = false;
        request.redirects_ = 0;
        request.url_.clear();
        return;
    }
    if (!request.patient_ && (status == 403 || is_temporary(status))) {
        request.done_ = status == 403 || request.failures_ > 0 || !retry_later(request, "");
        return;
    }
    if (status == 401) return log_in(request);
    if (status == 403) throw unauthorised(response);
    if (is_temporary(status)) {
        if (retry_later(request, response.header("retry-after"))) return;
        throw refused(response, fmt::format("{} is overloaded or broken", endpoint_.host))
            .hint("try again later");
    }
    request.done_ = true;
}

void RegistryClient::settle_failure(RegistryRequest& request, const HttpFailure& failure) {
    // A host that may be insecure and answers a TLS greeting with plain text speaks http.
    const bool no_tls =
        failure.kind == HttpFailure::Kind::tls || failure.kind == HttpFailure::Kind::other ||
        failure.kind == HttpFailure::Kind::cut || failure.kind == HttpFailure::Kind::connect;
    if (!request.foreign_ && endpoint_.plain_http && !http_ && logins_ == 0 && no_tls &&
        request.url_.starts_with(base())) {
        log::verbose("{} speaks no https: {}", endpoint_.host, failure.text);
        http_ = true;
        request.url_.clear();
        return;
    }
    const bool nobody = failure.kind == HttpFailure::Kind::connect && request.failures_ >= 2;
    if (is_temporary(failure.kind) && !nobody && request.patient_) {
        log::verbose("{}: {}", origin_of(request.url_), failure.text);
        if (retry_later(request, "")) return;
    }
    unreachable(request.url_, failure);
}

void RegistryClient::redirect(RegistryRequest& request, const std::string& location) {
    if (++request.redirects_ > kMostRedirects) {
        throw Error(ErrorKind::io, fmt::format("{} redirects in a circle", endpoint_.host))
            .note(fmt::format("the last address was {}", slipway::quoted(location)));
    }
    const std::string next = resolve_url(request.url_, location);
    if (request.url_.starts_with("https://") && !next.starts_with("https://")) {
        throw Error(ErrorKind::io, fmt::format("{} redirects to an address without encryption",
                                               origin_of(request.url_)))
            .note(fmt::format("the address is {}", slipway::quoted(origin_of(next))))
            .hint("ask the registry's administrator to offer its storage by https");
    }
    if (origin_of(next) != origin_of(base())) request.foreign_ = true;
    request.url_ = next;
}

bool RegistryClient::retry_later(RegistryRequest& request, const std::string& retry_after) {
    if (++request.failures_ >= kMostFailures) return false;
    milliseconds delay = retry_delay(request.failures_);
    int seconds = 0;
    const char* end = retry_after.data() + retry_after.size();
    if (std::from_chars(retry_after.data(), end, seconds).ec == std::errc() && seconds > 0)
        delay = std::min(kLongestDelay, milliseconds(1000) * seconds);
    if (delay > milliseconds(2000))
        log::info("{} asks to wait: trying again in {:.0f} s", endpoint_.host,
                  static_cast<double>(delay.count()) / 1000);
    request.not_before_ = RegistryRequest::Clock::now() + delay;
    return true;
}

Error RegistryClient::refused(const HttpResponse& response, const std::string& what) const {
    Error error(ErrorKind::io, fmt::format("{} (HTTP {})", what, response.status));
    if (const std::string words = words_of(response); !words.empty())
        error.note(fmt::format("the registry says: {}", slipway::quoted(words)));
    return error.note(
        fmt::format("while asking {} for {}", endpoint_.host, slipway::quoted(reference_.text())));
}

void RegistryClient::unreachable(const std::string& url, const HttpFailure& failure) const {
    const std::string origin = origin_of(url);
    const std::string host = origin.substr(origin.find("//") + 2);
    Unreachable error(ErrorKind::io, fmt::format("cannot reach {}: {}", host, failure.text));
    error.note(fmt::format("while asking for {}", slipway::quoted(reference_.text())));
    switch (failure.kind) {
        case HttpFailure::Kind::resolve:
            error.hint(
                "check the host's name; on a node without a network, pull on the login node first, "
                "or set https_proxy");
            break;
        case HttpFailure::Kind::certificate:
            error.hint(fmt::format(
                "put the authority's certificate into ~/.config/containers/certs.d/{0}/ca.crt; "
                "or, if you must, pull with --tls-verify=false",
                endpoint_.host));
            break;
        case HttpFailure::Kind::tls:
            error.hint(
                "if the registry speaks plain http, mark it \"insecure = true\" in "
                "~/.config/containers/registries.conf, or pull with --tls-verify=false");
            break;
        case HttpFailure::Kind::connect:
        case HttpFailure::Kind::silent:
            error.hint("check host and port, and whether a proxy is needed (https_proxy)");
            break;
        default:
            error.hint("try again: what has been downloaded is kept");
    }
    using Kind = HttpFailure::Kind;
    const bool absent = failure.kind == Kind::resolve || failure.kind == Kind::connect ||
                        failure.kind == Kind::silent;
    if (absent) throw error;
    throw Error(error);
}

Error RegistryClient::unauthorised(const HttpResponse& response) const {
    Error error = refused(response, fmt::format("{} does not let you have {}", endpoint_.host,
                                                slipway::quoted(endpoint_.repository)));
    if (had_credentials_) {
        error.note(fmt::format("with the credentials of {}", credentials_origin_));
        error.hint(
            fmt::format("check that the image exists and that this user may have it; log in "
                        "again with: skopeo login {}",
                        login_host()));
    } else {
        error.note("without credentials: no file has any for this host");
        error.hint(
            fmt::format("log in (skopeo login {0}, podman login {0} or docker login {0}), "
                        "or check the image's name",
                        reference_.host));
    }
    return error;
}

}  // namespace slipway::image
