// Basic and Bearer authentication of the registry client.
// Must not: send a password over plain http that the user did not allow.
#include <fmt/core.h>

#include <algorithm>

#include "client.hpp"
#include "credentials.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/log.hpp"

namespace slipway::image {
namespace {

constexpr int kMostLogins = 2;

std::string lower(std::string text) {
    for (char& c : text)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text;
}

/// 'Bearer realm="...",service="..."' as {"": "bearer", "realm": ..., ...}.
/// Source: RFC 9110, 11.6.1.
std::map<std::string, std::string> parse_challenge(const std::string& header) {
    std::map<std::string, std::string> parts;
    size_t at = header.find(' ');
    parts[""] = lower(header.substr(0, at));
    while (at < header.size()) {
        at = header.find_first_not_of(" ,\t", at);
        const size_t equals = header.find('=', at);
        if (at == std::string::npos || equals == std::string::npos) break;
        const std::string name = lower(header.substr(at, equals - at));
        std::string value;
        at = equals + 1;
        if (at < header.size() && header[at] == '"') {
            for (++at; at < header.size() && header[at] != '"'; ++at) {
                if (header[at] == '\\' && at + 1 < header.size()) ++at;
                value += header[at];
            }
            ++at;
        } else {
            const size_t end = std::min(header.find(',', at), header.size());
            value = header.substr(at, end - at);
            at = end;
        }
        parts[name] = value;
    }
    return parts;
}

std::string basic(const RegistryCredentials& credentials) {
    return "Basic " + base64(credentials.user + ":" + credentials.password);
}

}  // namespace

void RegistryClient::log_in(RegistryRequest& request) {
    // Somebody else has logged in since this was sent.
    if (request.login_seen_ != logins_ && request.logins_++ < kMostLogins) return;
    if (request.logins_++ >= kMostLogins) throw unauthorised(request.response_);
    const auto challenge = parse_challenge(request.response_.header("www-authenticate"));
    const std::string scheme = challenge.at("");
    if (scheme == "bearer") {
        fetch_token(challenge);
    } else if (scheme == "basic") {
        const auto credentials =
            find_credentials(login_host(), endpoint_.repository, access_.auth_file);
        had_credentials_ = credentials.has_value();
        if (!credentials) throw unauthorised(request.response_);
        credentials_origin_ = credentials->origin;
        if (authorization_ == basic(*credentials)) throw unauthorised(request.response_);
        authorization_ = basic(*credentials);
    } else {
        throw refused(request.response_,
                      fmt::format("{} asks for a way to log in that is not known: {}",
                                  endpoint_.host, slipway::quoted(scheme)));
    }
    ++logins_;
}

void RegistryClient::fetch_token(const std::map<std::string, std::string>& challenge) {
    const auto part = [&](const char* name) {
        const auto found = challenge.find(name);
        return found == challenge.end() ? std::string() : found->second;
    };
    const std::string realm = resolve_url(base() + "/", part("realm"));
    if (realm.starts_with("http://") && !http_) {
        throw Error(ErrorKind::io,
                    fmt::format("{} wants passwords to be sent without encryption", endpoint_.host))
            .note(fmt::format("its token service is {}", slipway::quoted(realm)));
    }
    std::vector<std::string> scopes = scopes_;
    if (const std::string wanted = part("scope");
        !wanted.empty() && std::find(scopes.begin(), scopes.end(), wanted) == scopes.end())
        scopes.push_back(wanted);
    const HttpResponse response = ask_for_token(realm, part("service"), scopes);
    if (response.status == 401 || response.status == 403) throw unauthorised(response);
    if (!response.success())
        throw refused(response, fmt::format("the token service of {} fails", endpoint_.host))
            .hint("try again later");
    const std::string subject = "the token of " + endpoint_.host;
    const Json json = parse_json(response.body, subject, ErrorKind::io);
    std::string token = json_string(json, "token", subject, {}, ErrorKind::io);
    if (token.empty()) token = json_string(json, "access_token", subject, {}, ErrorKind::io);
    if (token.empty())
        throw Error(ErrorKind::io,
                    fmt::format("the token service of {} gives no token", endpoint_.host));
    authorization_ = "Bearer " + token;
}

HttpResponse RegistryClient::ask_for_token(const std::string& realm, const std::string& service,
                                           const std::vector<std::string>& scopes) {
    const auto credentials =
        find_credentials(login_host(), endpoint_.repository, access_.auth_file);
    had_credentials_ = credentials.has_value();
    if (credentials) credentials_origin_ = credentials->origin;
    std::string query = "service=" + percent_encoded(service);
    HttpRequest request;
    // Certificates of the registry's own authority count for its token service, too.
    request.trust = trust_;
    if (credentials && !credentials->identity_token.empty()) {
        // Source: distribution, spec/auth/oauth.
        std::string joined;
        for (const std::string& scope : scopes) joined += (joined.empty() ? "" : " ") + scope;
        request.method = "POST";
        request.url = realm;
        request.headers = {"Content-Type: application/x-www-form-urlencoded"};
        request.body = fmt::format(
            "grant_type=refresh_token&client_id=slipway&refresh_token={}&{}&scope={}",
            percent_encoded(credentials->identity_token), query, percent_encoded(joined));
    } else {
        for (const std::string& scope : scopes) query += "&scope=" + percent_encoded(scope);
        if (credentials) {
            query += "&account=" + percent_encoded(credentials->user);
            request.headers = {"Authorization: " + basic(*credentials)};
        }
        request.url = realm + (realm.find('?') == std::string::npos ? "?" : "&") + query;
    }
    HttpResponse response;
    for (int failures = 0;; ++failures) {
        HttpFailure failure;
        response = http_client_.perform(request, failure);
        const bool cut = failure.kind == HttpFailure::Kind::cut;
        if (failure.kind != HttpFailure::Kind::none && !cut) unreachable(realm, failure);
        if (!cut && response.status != 429 && response.status < 500) return response;
        if (failures >= 4) {
            if (cut) unreachable(realm, failure);
            return response;
        }
        http_client_.wait(retry_delay(failures + 1));
    }
}

}  // namespace slipway::image
