// The merge of the image's passwd and group with the caller's entry, on texts of every quality.
#include "accounts.hpp"

#include "catch.hpp"

using namespace slipway::runtime;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

constexpr const char* kOwn = "mara:x:1000:100::/home/mara:/bin/sh\n";
constexpr const char* kFallback =
    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n";

std::string merged(const std::string& image) { return merge_accounts(image, kOwn, kFallback); }

}  // namespace

TEST_CASE("an image without the file gets the caller and the entries that programs count on") {
    CHECK(merged("") == std::string(kOwn) + kFallback);
}

TEST_CASE("the image's users stay, the caller comes after them") {
    const std::string image =
        "root:x:0:0:root:/root:/bin/bash\nbob:x:1001:1001::/home/bob:/bin/bash\n"
        "nobody:x:65534:65534::/:/bin/false\n";
    CHECK(merged(image) == image + kOwn);
}

TEST_CASE("an entry of the caller's name is replaced where it stands") {
    CHECK(merged("root:x:0:0::/:/bin/sh\nmara:x:7:7::/old:/bin/zsh\nbob:x:9:9::/:/bin/sh\n") ==
          std::string("root:x:0:0::/:/bin/sh\n") + kOwn +
              "bob:x:9:9::/:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n");
}

TEST_CASE("an entry of the caller's id stays behind the caller's: both names and the id resolve") {
    const std::string text = merged("root:x:0:0::/:/bin/sh\nbob:x:1000:1000::/home/bob:/bin/sh\n");
    CHECK_THAT(text, StartsWith(std::string("root:x:0:0::/:/bin/sh\n") + kOwn +
                                "bob:x:1000:1000::/home/bob:/bin/sh\n"));
}

TEST_CASE("the caller stands once, before the first entry of its name or id") {
    CHECK_THAT(
        merged("a:x:1000:1::/:/bin/sh\nmara:x:5:5::/:/bin/sh\nb:x:1000:1::/:/bin/sh\n"),
        StartsWith(std::string(kOwn) + "a:x:1000:1::/:/bin/sh\nb:x:1000:1::/:/bin/sh\nroot"));
}

TEST_CASE("lines that are no entries stay, and none of them is taken for one") {
    const std::string garbage =
        std::string("# users\n\n:::\n+::::::\nmara\nmara:x\nmara:x:\nmara:x:nine:1\n\xff") + '\0' +
        ":\n";
    const std::string text = merged(garbage);
    CHECK_THAT(text, StartsWith(garbage));
    CHECK_THAT(text, EndsWith(std::string(kOwn) + kFallback));
}

TEST_CASE("a last line without an end, and one of any length, are lines") {
    CHECK_THAT(merged("bob:x:9:9::/:/bin/sh"),
               StartsWith("bob:x:9:9::/:/bin/sh\n" + std::string(kOwn)));
    const std::string image = "staff:x:50:" + std::string(300'000, 'm') + "\n";
    CHECK(merge_accounts(image, "users:x:100:\n", "root:x:0:\n") ==
          image + "users:x:100:\nroot:x:0:\n");
}

TEST_CASE("root and nobody have no entry of their own beside the usual ones") {
    PlannedIdentity identity;
    identity.name = identity.group = "mara";
    CHECK(passwd_lines(identity, "/root").own.empty());
    CHECK(group_lines(identity).own.empty());
    identity.uid = identity.gid = 65534;
    CHECK(passwd_lines(identity, "/").own.empty());
    identity.uid = identity.gid = 12;
    CHECK(passwd_lines(identity, "/x").own == "mara:x:12:12::/x:/bin/sh\n");
    CHECK(group_lines(identity).own == "mara:x:12:\n");
    identity.shell = "/bin/zsh";
    CHECK(passwd_lines(identity, "/x").own == "mara:x:12:12::/x:/bin/zsh\n");
}

TEST_CASE("an id without a name gets one that the image's entries go before") {
    PlannedIdentity identity;
    identity.uid = identity.gid = 4711;
    CHECK(passwd_lines(identity, "/x").own.empty());
    CHECK_THAT(passwd_lines(identity, "/x").fallback,
               EndsWith("uid4711:x:4711:4711::/x:/bin/sh\n"));
    CHECK_THAT(group_lines(identity).fallback, EndsWith("gid4711:x:4711:\n"));
    identity.name = identity.group = "mara";  // the caller's name, under another id
    identity.own = identity.own_group = false;
    CHECK(passwd_lines(identity, "/x").own.empty());
    CHECK(group_lines(identity).own.empty());
    CHECK(merge_accounts("bob:x:4711:1::/home/bob:/bin/sh\n", "",
                         passwd_lines(identity, "/x").fallback)
              .find("uid4711") == std::string::npos);
}

TEST_CASE("a shell that the image lacks becomes /bin/sh") {
    const auto only_bash = [](const std::string& path) { return path == "/bin/bash"; };
    CHECK(with_present_shells("a:x:1:1::/:/bin/bash\nb:x:2:2::/:/bin/zsh\n", only_bash) ==
          "a:x:1:1::/:/bin/bash\nb:x:2:2::/:/bin/sh\n");
    CHECK(with_present_shells("", only_bash).empty());
}
