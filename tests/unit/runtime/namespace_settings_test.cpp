// Which setting a refused namespace is blamed on, and what the user is told to type.
// Must not: depend on the settings of the host that runs the tests.
#include "namespace_settings.hpp"

#include <cerrno>

#include "catch.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

std::string told(int errno_value, const NamespaceSettings& settings,
                 const std::string& call = "unshare") {
    const Error error = explain_refusal(errno_value, call, settings);
    CHECK(error.kind() == ErrorKind::host_forbids);
    return error.render();
}

}  // namespace

TEST_CASE("each setting is named with the line that changes it") {
    NamespaceSettings settings;
    settings.max_user_namespaces = 1000;
    SECTION("none allowed") {
        settings.max_user_namespaces = 0;
        CHECK_THAT(told(ENOSPC, settings),
                   ContainsSubstring("sysctl user.max_user_namespaces=65536"));
    }
    SECTION("used up") {
        CHECK_THAT(told(ENOSPC, settings), ContainsSubstring("user.max_user_namespaces is 1000"));
    }
    SECTION("Debian's switch") {
        settings.unprivileged_userns_clone = 0;
        CHECK_THAT(told(EPERM, settings),
                   ContainsSubstring("sysctl kernel.unprivileged_userns_clone=1"));
    }
    SECTION("AppArmor lets unshare pass and stops what follows") {
        settings.apparmor_restricts = 1;
        CHECK_THAT(told(EPERM, settings, "writing uid_map"),
                   ContainsSubstring("apparmor_parser -r /etc/apparmor.d/slipway"));
        CHECK_THAT(told(EACCES, settings, "mount"), ContainsSubstring("cannot mount in a user"));
    }
    SECTION("a chroot") {
        settings.chrooted = true;
        CHECK_THAT(told(EPERM, settings), ContainsSubstring("in a chroot"));
    }
    SECTION("a seccomp filter") {
        settings.seccomp_filters = 1;
        CHECK_THAT(told(EPERM, settings), ContainsSubstring("seccomp filter"));
    }
    SECTION("SELinux") {
        settings.selinux_enforces = true;
        CHECK_THAT(told(EACCES, settings), ContainsSubstring("user_namespace { create }"));
    }
    SECTION("a kernel without them") {
        CHECK_THAT(told(EINVAL, settings), ContainsSubstring("CONFIG_USER_NS"));
    }
    SECTION("nothing that we know") {
        CHECK_THAT(told(EPERM, settings), ContainsSubstring("a chroot or a security module"));
    }
}

TEST_CASE("a setting that does not explain the errno is not blamed") {
    NamespaceSettings settings;
    settings.max_user_namespaces = 1000;
    settings.apparmor_restricts = 1;
    settings.seccomp_filters = 1;
    CHECK_THAT(told(ENOMEM, settings),
               !ContainsSubstring("AppArmor") && !ContainsSubstring("seccomp"));
}
