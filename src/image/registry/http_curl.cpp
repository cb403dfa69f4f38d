// Loads libcurl.
// Must not: be called before somebody wants the network.
#include "http_curl.hpp"

#include "../shared_library.hpp"

namespace slipway::image {
namespace {

Curl load() {
    // The second is the GnuTLS flavour of Debian and its kin, with the same interface.
    const SharedLibrary library(
        {"libcurl.so.4", "libcurl-gnutls.so.4"},
        {"libcurl", "registries are reached through it",
         "install the package libcurl4 (Debian, Ubuntu) or libcurl (Fedora, RHEL)",
         "install libcurl 7.66 or later"});
    Curl curl;
    library.find("curl_global_init", curl.global_init);
    library.find("curl_easy_init", curl.easy_init);
    library.find("curl_easy_cleanup", curl.easy_cleanup);
    library.find("curl_easy_setopt", curl.easy_setopt);
    library.find("curl_easy_getinfo", curl.easy_getinfo);
    library.find("curl_easy_strerror", curl.easy_strerror);
    library.find("curl_multi_init", curl.multi_init);
    library.find("curl_multi_cleanup", curl.multi_cleanup);
    library.find("curl_multi_add_handle", curl.multi_add_handle);
    library.find("curl_multi_remove_handle", curl.multi_remove_handle);
    library.find("curl_multi_perform", curl.multi_perform);
    library.find("curl_multi_poll", curl.multi_poll);
    library.find("curl_multi_info_read", curl.multi_info_read);
    library.find("curl_slist_append", curl.slist_append);
    library.find("curl_slist_free_all", curl.slist_free_all);
    library.find("curl_url", curl.url);
    library.find("curl_url_cleanup", curl.url_cleanup);
    library.find("curl_url_set", curl.url_set);
    library.find("curl_url_get", curl.url_get);
    library.find("curl_free", curl.free);
    curl.global_init(CURL_GLOBAL_DEFAULT);
    return curl;
}

}  // namespace

const Curl& curl() {
    static const Curl loaded = load();
    return loaded;
}

}  // namespace slipway::image
