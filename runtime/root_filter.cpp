// The seccomp filter that lets package managers believe that they are root.
// Must not: remember what was asked (that is the notifying emulation's work), or run a supervisor.
#include "root_filter.hpp"

#include <fmt/core.h>
#include <seccomp.h>
#include <sys/stat.h>

#include <memory>

#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::runtime {

const std::vector<FakedCalls>& faked_calls() {
    using When = FakedCalls::When;
    static const std::vector<FakedCalls> rows = {
        {When::always,
         {"chown", "fchown", "lchown", "fchownat", "chown32", "fchown32", "lchown32"},
         "one user is mapped: every other owner is EINVAL to the kernel"},
        {When::always,
         {"setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setuid32",
          "setgid32", "setreuid32", "setregid32", "setresuid32", "setresgid32"},
         "package scripts step down to system users that are not mapped"},
        {When::id_given,
         {"setfsuid", "setfsgid", "setfsuid32", "setfsgid32"},
         "as above; -1 asks for the present value and must reach the kernel"},
        {When::always,
         {"setgroups", "setgroups32"},
         "denied for good in a namespace made without privilege"},
        {When::always, {"capset"}, "programs that drop capabilities they do not have"},
        {When::device_mode_1, {"mknod"}, "device nodes; FIFOs and sockets are made for real"},
        {When::device_mode_2, {"mknodat"}, "the same"},
        {When::always, {"kexec_load"}, "never useful in a build, so it tells whether we are on"},
    };
    return rows;
}

namespace {

using Context = std::unique_ptr<void, decltype(&seccomp_release)>;

void check(int result, const std::string& what) {
    if (result < 0)
        throw SysError(-result, fmt::format("cannot prepare root emulation for {}", what),
                       "libseccomp");
}

void add_row(const Context& context, const FakedCalls& row, const std::string& name) {
    const int call = seccomp_syscall_resolve_name(name.c_str());
    if (call == __NR_SCMP_ERROR) return;  // a library older than the call
    const auto rule = [&](auto... conditions) {
        const int result = seccomp_rule_add(context.get(), SCMP_ACT_ERRNO(0), call,
                                            sizeof...(conditions), conditions...);
        // aarch64 has neither chown nor the 32-bit forms.
        if (result != -EDOM && result != -EINVAL) check(result, name);
    };
    switch (row.when) {
        case FakedCalls::When::always:
            rule();
            break;
        case FakedCalls::When::device_mode_1:
            rule(SCMP_A1(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFCHR));
            rule(SCMP_A1(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFBLK));
            break;
        case FakedCalls::When::device_mode_2:
            rule(SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFCHR));
            rule(SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFBLK));
            break;
        case FakedCalls::When::id_given:
            rule(SCMP_A0_32(SCMP_CMP_NE, static_cast<uint32_t>(-1)));
            break;
    }
}

}  // namespace

void install_root_filter() {
    const Context context(seccomp_init(SCMP_ACT_ALLOW), &seccomp_release);
    if (!context) throw Error(ErrorKind::internal, "cannot allocate a seccomp filter");
    // Calls of an architecture that is not listed pass unchanged: they fail as they would without
    // us, which beats a killed process.
    check(seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ALLOW), "any machine");
    std::vector<uint32_t> more;
#if defined(__x86_64__)
    more = {SCMP_ARCH_X86, SCMP_ARCH_X32};
#elif defined(__aarch64__)
    more = {SCMP_ARCH_ARM};
#endif
    for (const uint32_t arch : more)
        check(seccomp_arch_add(context.get(), arch), "32-bit programs");
    for (const auto& row : faked_calls())
        for (const auto& name : row.calls) add_row(context, row, name);
    sys::set_no_new_privs();
    const int result = seccomp_load(context.get());
    if (result < 0) {
        SysError cause(-result, "cannot install the filter of root emulation", "seccomp");
        throw Error(ErrorKind::host_forbids, cause.message())
            .hint("use a kernel with CONFIG_SECCOMP_FILTER, or build the image elsewhere");
    }
}

}  // namespace slipway::runtime
