// Loads libcurl.
// Must not: be called before somebody wants the network.
#include "http_curl.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <string>

#include "slipway/base/error.hpp"

namespace slipway::image {
namespace {

void* open_library() {
    std::string reason;
    // The second is the GnuTLS flavour of Debian and its kin, with the same interface.
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
        if (void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
        if (reason.empty()) reason = ::dlerror();
    }
    throw Error(ErrorKind::not_found, fmt::format("cannot load libcurl: {}", reason))
        .note("registries are reached through it")
        .hint("install the package libcurl4 (Debian, Ubuntu) or libcurl (Fedora, RHEL)");
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr) {
        throw Error(ErrorKind::unsupported, fmt::format("this libcurl is too old: no {}", name))
            .hint("install libcurl 7.66 or later");
    }
}

Curl load() {
    void* library = open_library();
    Curl curl;
    find(library, "curl_global_init", curl.global_init);
    find(library, "curl_easy_init", curl.easy_init);
    find(library, "curl_easy_cleanup", curl.easy_cleanup);
    find(library, "curl_easy_setopt", curl.easy_setopt);
    find(library, "curl_easy_getinfo", curl.easy_getinfo);
    find(library, "curl_easy_strerror", curl.easy_strerror);
    find(library, "curl_multi_init", curl.multi_init);
    find(library, "curl_multi_cleanup", curl.multi_cleanup);
    find(library, "curl_multi_add_handle", curl.multi_add_handle);
    find(library, "curl_multi_remove_handle", curl.multi_remove_handle);
    find(library, "curl_multi_perform", curl.multi_perform);
    find(library, "curl_multi_poll", curl.multi_poll);
    find(library, "curl_multi_info_read", curl.multi_info_read);
    find(library, "curl_slist_append", curl.slist_append);
    find(library, "curl_slist_free_all", curl.slist_free_all);
    find(library, "curl_url", curl.url);
    find(library, "curl_url_cleanup", curl.url_cleanup);
    find(library, "curl_url_set", curl.url_set);
    find(library, "curl_url_get", curl.url_get);
    find(library, "curl_free", curl.free);
    curl.global_init(CURL_GLOBAL_DEFAULT);
    return curl;
}

}  // namespace

const Curl& curl() {
    static const Curl loaded = load();
    return loaded;
}

}  // namespace slipway::image
