// Reads the limits that bound how many ranks, files and namespaces there can be.
// Must not: change a limit.
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "doctor_checks.hpp"
#include "namespace_settings.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime::doctor {

namespace {

using Level = Finding::Level;

struct LimitRow {
    __rlimit_resource resource;
    const char* name;
    const char* flag;      ///< of ulimit
    rlim_t least, enough;  ///< below: a problem, a warning
    const char* meaning;
    const char* limits_conf;  ///< the item of limits.conf(5)
};

constexpr LimitRow kLimits[] = {
    {RLIMIT_NPROC, "processes", "-u", 16, 512,
     "each rank needs a process, and a session a few more", "nproc"},
    {RLIMIT_NOFILE, "open files", "-n", 32, 1024,
     "putting a container together needs 32, an overlay of many layers one for each", "nofile"},
};

std::string text_of(rlim_t value) {
    return value == RLIM_INFINITY ? "unlimited" : std::to_string(value);
}

Finding check_limit(const LimitRow& row) {
    rlimit limit{};
    if (::getrlimit(row.resource, &limit) != 0) return skipped(row.name, "getrlimit tells nothing");
    Finding finding =
        good(row.name, fmt::format("{} (ulimit {}; at most {})", text_of(limit.rlim_cur), row.flag,
                                   text_of(limit.rlim_max)));
    if (limit.rlim_cur >= row.enough) return finding;
    finding.level = limit.rlim_cur < row.least ? Level::problem : Level::warning;
    finding.meaning = row.meaning;
    finding.remedy = limit.rlim_max >= row.enough
                         ? fmt::format("ulimit {} {}", row.flag, row.enough)
                         : fmt::format(
                               "ask the administrator for a line in /etc/security/limits.conf: "
                               "* - {} {}",
                               row.limits_conf, std::max<rlim_t>(row.enough, 4096));
    return finding;
}

Finding check_count(const std::string& kind, long count) {
    const std::string setting = fmt::format("user.max_{}_namespaces", kind);
    Finding finding = good(kind + " namespaces allowed", fmt::format("{} is {}", setting, count));
    if (count < 0) return skipped(finding.name, "this kernel has no " + setting);
    if (count >= 128) return finding;
    finding.level = count == 0 ? Level::problem : Level::warning;
    finding.meaning =
        count == 0 ? "no image runs here" : "few sessions, builds and nested containers at once";
    finding.remedy = fmt::format("ask the administrator for: sysctl {}=65536", setting);
    return finding;
}

/// Fabrics pin the memory they send from.
Finding check_locked_memory() {
    rlimit limit{};
    ::getrlimit(RLIMIT_MEMLOCK, &limit);
    Finding finding = good("locked memory", text_of(limit.rlim_cur) + " (ulimit -l)");
    const bool fabric = sys::stat_if_exists(AT_FDCWD, "/dev/infiniband").has_value();
    if (!fabric || limit.rlim_cur == RLIM_INFINITY) return finding;
    finding.level = Level::warning;
    finding.meaning = "MPI over InfiniBand fails or falls back to TCP when it cannot lock memory";
    finding.remedy =
        "ask the administrator for a line in /etc/security/limits.conf: * - memlock unlimited";
    return finding;
}

}  // namespace

Findings check_limits() {
    Findings findings;
    for (const auto& row : kLimits) findings.push_back(check_limit(row));
    const NamespaceSettings settings = read_namespace_settings();
    findings.push_back(check_count("user", settings.max_user_namespaces));
    findings.push_back(check_count("mnt", settings.max_mnt_namespaces));
    findings.push_back(check_locked_memory());
    return findings;
}

}  // namespace slipway::runtime::doctor
