// Parses the names of images in registries.
// Must not: look anything up.
#include "reference.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "slipway/base/error.hpp"
#include "slipway/base/text.hpp"

namespace slipway::image {
namespace {

[[noreturn]] void malformed(std::string_view text, const std::string& why) {
    throw Error(ErrorKind::usage,
                fmt::format("{} names no image of a registry: {}", slipway::quoted(text), why))
        .hint("write docker://HOST[:PORT]/REPOSITORY[:TAG], for example docker://debian:12");
}

bool is_host(const std::string& text) {
    return text.find_first_of(".:[") != std::string::npos || text == "localhost";
}

/// Lower case and digits, joined by one ".", one or two "_", or any number of "-".
bool is_component(std::string_view text) {
    const auto word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    if (text.empty() || !word(text.front()) || !word(text.back())) return false;
    for (size_t i = 0; i < text.size();) {
        if (word(text[i])) {
            ++i;
            continue;
        }
        const char separator = text[i];
        const size_t end = std::min(text.find_first_not_of(separator, i), text.size());
        const size_t longest = separator == '-' ? text.size() : separator == '_' ? 2 : 1;
        if ((separator != '.' && separator != '_' && separator != '-') || end - i > longest ||
            !word(text[end]))
            return false;
        i = end;
    }
    return true;
}

bool is_tag(std::string_view text) {
    return !text.empty() && text.size() <= 128 && text.front() != '.' && text.front() != '-' &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) {
               return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-');
           });
}

bool is_host_name(const std::string& host) {
    const size_t close = host.find(']');
    const bool six = host.starts_with("[");
    if (six && close == std::string::npos) return false;
    const size_t colon = host.find(':', six ? close : 0);
    const std::string name = host.substr(0, colon);
    const std::string port = colon == std::string::npos ? "1" : host.substr(colon + 1);
    const auto first = static_cast<unsigned char>(name.empty() ? '.' : name.front());
    return (std::isalnum(first) != 0 || six) &&
           std::all_of(name.begin(), name.end(),
                       [six](unsigned char c) {
                           return c < 128 && (std::isalnum(c) != 0 || c == '.' || c == '-' ||
                                              (six && (c == ':' || c == '[' || c == ']')));
                       }) &&
           !port.empty() && port.size() <= 5 &&
           port.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

std::string RegistryReference::text() const {
    return digest.empty() ? fmt::format("{}:{}", name(), tag)
                          : fmt::format("{}@{}", name(), digest.text());
}

std::string RegistryReference::stored_name() const {
    std::string plain = host;
    if (plain.starts_with("["))  // an IPv6 address has characters that no stored name may have
        for (char& c : plain)
            if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
    while (plain.starts_with("-")) plain.erase(0, 1);
    const std::string last = digest.empty() ? tag : "sha256-" + digest.hex();
    return fmt::format("{}/{}:{}", plain, repository, last);
}

RegistryReference parse_registry_reference(std::string_view text) {
    const std::string_view scheme = "docker://";
    std::string rest(text.starts_with(scheme) ? text.substr(scheme.size()) : text);
    RegistryReference reference;
    if (const size_t at = rest.find('@'); at != std::string::npos) {
        const std::string digest = rest.substr(at + 1);
        rest.resize(at);
        try {
            reference.digest = Digest::parse(digest);
        } catch (const Error&) {
            malformed(text, fmt::format("{} is no sha256 digest", slipway::quoted(digest)));
        }
    }
    const size_t slash = rest.find('/');
    reference.host = "docker.io";
    if (slash != std::string::npos && is_host(rest.substr(0, slash))) {
        reference.host = rest.substr(0, slash);
        rest.erase(0, slash + 1);
        std::transform(reference.host.begin(), reference.host.end(), reference.host.begin(),
                       [](unsigned char c) { return std::tolower(c); });
        if (!is_host_name(reference.host)) malformed(text, "its host is malformed");
    }
    reference.tag = reference.digest.empty() ? "latest" : "";
    if (const size_t colon = rest.rfind(':');
        colon != std::string::npos && rest.find('/', colon) == std::string::npos) {
        const std::string tag = rest.substr(colon + 1);
        if (!is_tag(tag)) malformed(text, fmt::format("{} is no tag", slipway::quoted(tag)));
        if (reference.digest.empty()) reference.tag = tag;
        rest.resize(colon);
    }
    if (reference.host == "index.docker.io") reference.host = "docker.io";
    if (reference.host == "docker.io" && rest.find('/') == std::string::npos && !rest.empty())
        rest = "library/" + rest;
    for (const std::string& component : split(rest, '/')) {
        if (!is_component(component))
            malformed(text, fmt::format("{} is no part of a repository's name (lower case, "
                                        "digits, and . _ - between them)",
                                        slipway::quoted(component)));
    }
    if (rest.size() > 255) malformed(text, "it is too long");
    reference.repository = rest;
    return reference;
}

}  // namespace slipway::image
