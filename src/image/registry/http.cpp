// HTTP through libcurl's multi interface.
// Must not: follow redirects, know registries, or throw through libcurl.
#include "http.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "http_curl.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

constexpr size_t kBodyLimit = 16u << 20;
constexpr long kConnectSeconds = 20;

long stall_seconds() {
    const char* text = std::getenv("SLIPWAY_HTTP_TIMEOUT");
    long seconds = 0;
    if (text != nullptr &&
        std::from_chars(text, text + std::strlen(text), seconds).ec == std::errc() && seconds > 0)
        return seconds;
    return 60;
}

HttpFailure::Kind kind_of(CURLcode code) {
    using Kind = HttpFailure::Kind;
    switch (code) {
        case CURLE_OK:
            return Kind::none;
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_RESOLVE_PROXY:
            return Kind::resolve;
        case CURLE_COULDNT_CONNECT:
            return Kind::connect;
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_ISSUER_ERROR:
            return Kind::certificate;
        case CURLE_SSL_CONNECT_ERROR:
        case CURLE_SSL_CIPHER:
            return Kind::tls;
        case CURLE_PARTIAL_FILE:
        case CURLE_RECV_ERROR:
        case CURLE_SEND_ERROR:
        case CURLE_GOT_NOTHING:
        case CURLE_OPERATION_TIMEDOUT:
        case CURLE_SEND_FAIL_REWIND:
        case CURLE_HTTP2:
        case CURLE_HTTP2_STREAM:
        case CURLE_WEIRD_SERVER_REPLY:
            return Kind::cut;
        default:
            return Kind::other;
    }
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

}  // namespace

struct HttpTransfer::State {
    CURL* easy = nullptr;
    CURLM* multi = nullptr;
    curl_slist* headers = nullptr;
    HttpRequest request;
    HttpResponse response;
    HttpFailure failure;
    std::exception_ptr thrown;
    char reason[CURL_ERROR_SIZE] = {};
    uint64_t sent = 0;
    bool finished = false;

    ~State() {
        if (easy != nullptr) {
            curl().multi_remove_handle(multi, easy);
            curl().easy_cleanup(easy);
        }
        curl().slist_free_all(headers);
    }

    template <typename Value>
    void set(CURLoption option, Value value) {
        curl().easy_setopt(easy, option, value);
    }

    static size_t on_header(char* data, size_t, size_t size, void* state) {
        return static_cast<State*>(state)->take_header({data, size}) ? size : 0;
    }
    static size_t on_body(char* data, size_t, size_t size, void* state) {
        return static_cast<State*>(state)->take_body({data, size}) ? size : 0;
    }
    static size_t on_read(char* data, size_t each, size_t count, void* state) {
        return static_cast<State*>(state)->give_body(data, each * count);
    }

    bool take_header(std::string_view line) {
        try {
            while (!line.empty() && (line.back() == '\n' || line.back() == '\r'))
                line.remove_suffix(1);
            if (line.starts_with("HTTP/")) {  // of each answer, a proxy's and a 100 included
                response.headers.clear();
                const size_t space = line.find(' ');
                response.status = 0;
                if (space != std::string_view::npos)
                    std::from_chars(line.data() + space + 1, line.data() + line.size(),
                                    response.status);
                return true;
            }
            const size_t colon = line.find(':');
            if (colon == std::string_view::npos) return true;
            std::string name(line.substr(0, colon));
            std::transform(name.begin(), name.end(), name.begin(),
                           [](unsigned char c) { return std::tolower(c); });
            line.remove_prefix(colon + 1);
            while (line.starts_with(' ') || line.starts_with('\t')) line.remove_prefix(1);
            response.headers[name] = line;
            return true;
        } catch (...) {
            thrown = std::current_exception();
            return false;
        }
    }

    bool take_body(std::string_view piece) {
        try {
            if (request.sink && response.success()) {
                request.sink(response, piece);
                return true;
            }
            if (response.body.size() + piece.size() > kBodyLimit) {
                throw Error(ErrorKind::io,
                            fmt::format("the answer of {} is larger than 16 MiB", request.url));
            }
            response.body += piece;
            return true;
        } catch (...) {
            thrown = std::current_exception();
            return false;
        }
    }

    size_t give_body(char* data, size_t size) {
        try {
            const bool file = request.body_fd >= 0;
            const uint64_t whole = file ? request.body_bytes : request.body.size();
            size = static_cast<size_t>(std::min<uint64_t>(size, whole - sent));
            if (file)
                size =
                    sys::pread(request.body_fd, data, size, request.body_offset + sent, "a blob");
            else
                std::memcpy(data, request.body.data() + sent, size);
            sent += size;
            return size;
        } catch (...) {
            thrown = std::current_exception();
            return CURL_READFUNC_ABORT;
        }
    }

    void set_trust() {
        const HttpTrust& trust = request.trust;
        set(CURLOPT_SSL_VERIFYPEER, trust.verify ? 1L : 0L);
        set(CURLOPT_SSL_VERIFYHOST, trust.verify ? 2L : 0L);
        std::string bundle = variable("SSL_CERT_FILE");
        if (bundle.empty()) bundle = variable("CURL_CA_BUNDLE");
        if (!bundle.empty()) set(CURLOPT_CAINFO, bundle.c_str());
        if (const std::string directory = variable("SSL_CERT_DIR"); !directory.empty())
            set(CURLOPT_CAPATH, directory.c_str());
        if (trust.certificates)
            set(CURLOPT_CAINFO, fmt::format("/proc/self/fd/{}", trust.certificates->get()).c_str());
        if (!trust.client_certificate.empty()) {
            set(CURLOPT_SSLCERT, trust.client_certificate.c_str());
            set(CURLOPT_SSLKEY, trust.client_key.c_str());
        }
    }

    void set_body() {
        const uint64_t size = request.body_fd >= 0 ? request.body_bytes : request.body.size();
        if (request.method == "HEAD") {
            set(CURLOPT_NOBODY, 1L);
        } else if (request.method != "GET" && request.method != "DELETE") {
            set(CURLOPT_POST, 1L);
            set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(size));
            set(CURLOPT_READFUNCTION, &State::on_read);
            set(CURLOPT_READDATA, static_cast<void*>(this));
            request.headers.emplace_back("Expect:");
            if (std::none_of(request.headers.begin(), request.headers.end(),
                             [](const auto& h) { return h.starts_with("Content-Type:"); }))
                request.headers.emplace_back("Content-Type:");  // none, instead of a form's
            set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
        } else if (request.method != "GET") {
            set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
        }
    }

    void set_options() {
        set(CURLOPT_URL, request.url.c_str());
        set(CURLOPT_NOSIGNAL, 1L);
        set(CURLOPT_ERRORBUFFER, static_cast<char*>(reason));
        set(CURLOPT_USERAGENT, "slipway/" SLIPWAY_VERSION);
        set(CURLOPT_CONNECTTIMEOUT, std::min(kConnectSeconds, stall_seconds()));
        set(CURLOPT_LOW_SPEED_LIMIT, 1L);
        set(CURLOPT_LOW_SPEED_TIME, stall_seconds());
        set(CURLOPT_BUFFERSIZE, 256L << 10);
        set(CURLOPT_HEADERFUNCTION, &State::on_header);
        set(CURLOPT_HEADERDATA, static_cast<void*>(this));
        set(CURLOPT_WRITEFUNCTION, &State::on_body);
        set(CURLOPT_WRITEDATA, static_cast<void*>(this));
        set(CURLOPT_PRIVATE, static_cast<void*>(this));
        set_trust();
        set_body();
        for (const std::string& header : request.headers)
            headers = curl().slist_append(headers, header.c_str());
        set(CURLOPT_HTTPHEADER, headers);
    }

    void finish(CURLcode code) {
        finished = true;
        failure.kind = kind_of(code);
        double ready = 0;  // after which the request could be sent
        curl().easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME, &ready);
        if (code == CURLE_OPERATION_TIMEDOUT && ready == 0)
            failure.kind = HttpFailure::Kind::silent;
        if (failure.kind != HttpFailure::Kind::none)
            failure.text = reason[0] != '\0' ? reason : curl().easy_strerror(code);
    }
};

struct HttpClient::State {
    CURLM* multi = curl().multi_init();
    ~State() { curl().multi_cleanup(multi); }
};

std::string HttpResponse::header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
}

HttpTransfer::HttpTransfer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpTransfer::~HttpTransfer() = default;
bool HttpTransfer::finished() const { return state_->finished; }
const HttpResponse& HttpTransfer::response() const { return state_->response; }
const HttpFailure& HttpTransfer::failure() const { return state_->failure; }
void HttpTransfer::rethrow() const {
    if (state_->thrown) std::rethrow_exception(state_->thrown);
}

HttpClient::HttpClient() : state_(std::make_unique<State>()) {}
HttpClient::~HttpClient() = default;

std::unique_ptr<HttpTransfer> HttpClient::start(HttpRequest request) {
    origin_of(request.url);  // refuses what is neither http nor https
    auto state = std::make_unique<HttpTransfer::State>();
    state->request = std::move(request);
    state->multi = state_->multi;
    state->easy = curl().easy_init();
    if (state->easy == nullptr) throw Error(ErrorKind::internal, "libcurl gives no handle");
    state->set_options();
    curl().multi_add_handle(state_->multi, state->easy);
    return std::unique_ptr<HttpTransfer>(new HttpTransfer(std::move(state)));
}

void HttpClient::wait(std::chrono::milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (true) {
        int running = 0;
        curl().multi_perform(state_->multi, &running);
        bool finished = false;
        int left = 0;
        while (CURLMsg* message = curl().multi_info_read(state_->multi, &left)) {
            if (message->msg != CURLMSG_DONE) continue;
            void* of = nullptr;
            curl().easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &of);
            static_cast<HttpTransfer::State*>(of)->finish(message->data.result);
            finished = true;
        }
        const auto until = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (finished || until.count() <= 0) return;
        curl().multi_poll(state_->multi, nullptr, 0, static_cast<int>(until.count()), nullptr);
    }
}

HttpResponse HttpClient::perform(HttpRequest request, HttpFailure& failure) {
    const auto transfer = start(std::move(request));
    while (!transfer->finished()) wait(std::chrono::seconds(1));
    transfer->rethrow();
    failure = transfer->failure();
    return transfer->response();
}

namespace {

/// libcurl's parsed URL.
class Url {
 public:
    Url() : handle_(curl().url()) {}
    ~Url() { curl().url_cleanup(handle_); }
    Url(const Url&) = delete;
    Url& operator=(const Url&) = delete;

    void set(const std::string& text) {
        if (curl().url_set(handle_, CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) reject(text);
        const std::string scheme = get(CURLUPART_SCHEME);
        if (scheme != "http" && scheme != "https") reject(text);
    }
    std::string get(CURLUPart part) const {
        char* text = nullptr;
        const unsigned flags = part == CURLUPART_PORT ? CURLU_DEFAULT_PORT : 0;
        if (curl().url_get(handle_, part, &text, flags) != CURLUE_OK) return {};
        std::string copy = text;
        curl().free(text);
        return copy;
    }

 private:
    [[noreturn]] static void reject(const std::string& text) {
        throw Error(ErrorKind::io,
                    fmt::format("{} is no http or https address", slipway::quoted(text)));
    }
    CURLU* handle_;
};

}  // namespace

std::string resolve_url(const std::string& base, const std::string& location) {
    Url url;
    url.set(base);
    url.set(location);  // relative to what was set before
    // Verbatim where it stands on its own: a signed address must not be written anew.
    if (location.starts_with("http://") || location.starts_with("https://")) return location;
    return url.get(CURLUPART_URL);
}

std::string origin_of(const std::string& url) {
    Url parsed;
    parsed.set(url);
    return fmt::format("{}://{}:{}", parsed.get(CURLUPART_SCHEME), parsed.get(CURLUPART_HOST),
                       parsed.get(CURLUPART_PORT));
}

std::string percent_encoded(std::string_view text) {
    std::string encoded;
    for (const unsigned char c : text) {
        if (std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_' || c == '~')
            encoded += static_cast<char>(c);
        else
            encoded += fmt::format("%{:02X}", c);
    }
    return encoded;
}

}  // namespace slipway::image
