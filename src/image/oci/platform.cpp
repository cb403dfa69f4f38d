// Platforms by their names: what is meant, and which will do instead.
// Must not: look at an image.
#include "platform.hpp"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cctype>

#include "slipway/base/error.hpp"
#include "slipway/base/text.hpp"
#include "slipway/image/reference.hpp"

namespace slipway::image {
namespace {

struct Alias {
    std::string_view name, architecture, variant;
};
/// Names of machines as uname(2), compilers and people write them.
constexpr Alias kAliases[] = {
    {"x86_64", "amd64", ""},    {"x86-64", "amd64", ""},
    {"aarch64", "arm64", ""},   {"i386", "386", ""},
    {"i486", "386", ""},        {"i586", "386", ""},
    {"i686", "386", ""},        {"armhf", "arm", "v7"},
    {"armel", "arm", "v6"},     {"armv7l", "arm", "v7"},
    {"armv6l", "arm", "v6"},    {"armv8l", "arm", "v8"},
    {"ppc64el", "ppc64le", ""}, {"loongarch64", "loong64", ""},
};
constexpr std::string_view kSystems[] = {"aix",     "android", "darwin",  "freebsd",
                                         "illumos", "linux",   "netbsd",  "openbsd",
                                         "plan9",   "solaris", "windows", "wasip1"};
constexpr std::string_view kArchitectures[] = {
    "386",      "amd64", "arm",     "arm64",   "loong64", "mips",    "mipsle", "mips64",
    "mips64le", "ppc64", "ppc64le", "riscv64", "s390x",   "sparc64", "wasm"};

template <typename List>
bool contains(const List& list, std::string_view word) {
    return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return text;
}

bool is_word(const std::string& text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-');
    });
}

std::string machine() {
    utsname name{};
    ::uname(&name);
    return name.machine;
}

[[noreturn]] void malformed(std::string_view text) {
    throw Error(ErrorKind::usage, fmt::format("{} is no platform", slipway::quoted(text)))
        .note("requested by: --platform")
        .hint("write OS/ARCHITECTURE[/VARIANT], for example linux/arm64");
}

/// The number of "v7"; 0 for what is none.
int number_of(const std::string& variant) {
    if (variant.size() != 2 || variant[0] != 'v' || variant[1] < '1' || variant[1] > '9') return 0;
    return variant[1] - '0';
}

}  // namespace

std::string platform_name(std::string os, std::string architecture, std::string variant) {
    os = lower(std::move(os));
    architecture = lower(std::move(architecture));
    variant = lower(std::move(variant));
    if (os == "macos") os = "darwin";
    for (const Alias& alias : kAliases) {
        if (architecture != alias.name) continue;
        architecture = alias.architecture;
        if (variant.empty()) variant = alias.variant;
    }
    if (variant.size() == 1 && std::isdigit(static_cast<unsigned char>(variant[0])) != 0)
        variant.insert(0, 1, 'v');
    // The first of each family is meant where nothing is said.
    if ((architecture == "arm64" && variant == "v8") ||
        (architecture == "amd64" && variant == "v1"))
        variant.clear();
    if (architecture == "arm" && variant.empty()) variant = "v7";
    return os + "/" + architecture + (variant.empty() ? "" : "/" + variant);
}

std::string normalize_platform(std::string_view text) {
    auto parts = split(text, '/');
    if (parts.size() > 3 || !std::all_of(parts.begin(), parts.end(), is_word)) malformed(text);
    parts.resize(std::max<size_t>(parts.size(), 3));
    if (!parts[1].empty()) return platform_name(parts[0], parts[1], parts[2]);
    // One word: a system or an architecture that is known.
    const std::string as_architecture = platform_name("linux", parts[0], "");
    if (contains(kArchitectures, split(as_architecture, '/')[1])) return as_architecture;
    if (!contains(kSystems, lower(parts[0])) && lower(parts[0]) != "macos") malformed(text);
    return platform_name(parts[0], machine(), "");
}

std::string host_platform() { return platform_name("linux", machine(), ""); }

std::vector<std::string> platforms_for(const std::string& platform) {
    std::vector<std::string> list{platform};
    const auto parts = split(platform, '/');
    if (parts.size() != 3) return list;
    const std::string base = parts[0] + "/" + parts[1];
    const int lowest = parts[1] == "arm" ? 5 : parts[1] == "arm64" ? 9 : 2;
    for (int number = number_of(parts[2]) - 1; number >= lowest; --number)
        list.push_back(fmt::format("{}/v{}", base, number));
    if (parts[1] == "amd64" || parts[1] == "arm64") list.push_back(base);
    return list;
}

bool serves_platform(const std::string& offered, const std::string& wanted) {
    return contains(platforms_for(wanted), offered);
}

}  // namespace slipway::image
