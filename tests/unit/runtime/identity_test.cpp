// Who the command is inside, for made-up hosts and images.
// Must not: look up a user of the machine that runs the test.
#include "catch.hpp"
#include "plan_identity.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::runtime;

namespace {

const ImageAccounts kAccounts{
    "root:x:0:0:root:/root:/bin/bash\nbob:x:1234:1235::/home/bob:/bin/bash\n7:x:8:9::/seven:/bin/"
    "sh\n",
    "root:x:0:\ncrew:x:1235:bob\n"};

HostFacts host() {
    HostFacts facts;
    facts.uid = 4711;
    facts.gid = 100;
    facts.user_name = "mara";
    facts.group_name = "users";
    facts.shell = "/bin/zsh";
    facts.launcher = {"parent", "1@2"};
    return facts;
}

RunOptions as_user(const std::string& user) {
    RunOptions options;
    options.image = "/image";
    options.user = user;
    return options;
}

PlannedIdentity planned(const RunOptions& options, const std::string& image_user = {},
                        const HostFacts& facts = host()) {
    RunSpec spec;
    spec.identity = make_identity_spec(options);
    image::ImageConfig config;
    config.user = image_user;
    return plan_identity(spec, facts, config, kAccounts);
}

std::pair<uint32_t, uint32_t> ids(const PlannedIdentity& identity) {
    return {identity.uid, identity.gid};
}

using Ids = std::pair<uint32_t, uint32_t>;

}  // namespace

TEST_CASE("the caller stays itself") {
    const auto identity = planned({});
    CHECK(ids(identity) == Ids{4711, 100});
    CHECK((identity.own && identity.name == "mara" && identity.group == "users"));
    CHECK(identity.shell == "/bin/zsh");
    CHECK(planned({}, "root").own);
    CHECK(planned({}, "0:0").own);
}

TEST_CASE("ids by --root, --uid and --gid") {
    RunOptions root;
    root.root = true;
    CHECK(ids(planned(root)) == Ids{0, 0});
    CHECK(planned(root).home == "/root");
    RunOptions numbers;
    numbers.uid = "12";
    CHECK(ids(planned(numbers)) == Ids{12, 100});
    numbers.gid = "13";
    CHECK(ids(planned(numbers)) == Ids{12, 13});
    CHECK(planned(numbers).name.empty());
    for (const char* wrong : {"", "-1", "4294967295", "99999999999", "bob", "1x", " 1"}) {
        CAPTURE(wrong);
        numbers.uid = wrong;
        CHECK_THROWS_AS(planned(numbers), Error);
    }
}

TEST_CASE("a --user is looked up in the image: a name, then a number") {
    CHECK(ids(planned(as_user("bob"))) == Ids{1234, 1235});
    CHECK(planned(as_user("bob")).home == "/home/bob");
    CHECK(ids(planned(as_user("1234"))) == Ids{1234, 1235});
    CHECK(planned(as_user("1234")).name == "bob");
    CHECK(ids(planned(as_user("7"))) == Ids{8, 9});
    CHECK(ids(planned(as_user("55"))) == Ids{55, 0});
    CHECK(ids(planned(as_user("bob:crew"))) == Ids{1234, 1235});
    CHECK(ids(planned(as_user("bob:44"))) == Ids{1234, 44});
    CHECK(ids(planned(as_user("mara"))) == Ids{4711, 100});
    for (const char* wrong : {"nobody-here", "bob:no-group", "", ":", "bob:", ":crew", "a:b:c"}) {
        CAPTURE(wrong);
        CHECK_THROWS_AS(planned(as_user(wrong)), Error);
    }
}

TEST_CASE("the image's USER counts, except for a rank of a launcher") {
    CHECK(ids(planned({}, "bob")) == Ids{1234, 1235});
    CHECK(planned({}, "bob").reason == "the image's USER");
    CHECK_THROWS_AS(planned({}, "not-there"), Error);
    HostFacts rank = host();
    rank.launcher = {"slurm", "7.0", "SLURM_STEP_ID"};
    CHECK(ids(planned({}, "bob", rank)) == Ids{4711, 100});
    CHECK_THAT(planned({}, "bob", rank).reason, ContainsSubstring("SLURM_STEP_ID"));
    rank.launcher = {"parent", "1@2", "PMI_RANK"};  // its launcher is hidden from us
    CHECK(ids(planned({}, "bob", rank)) == Ids{4711, 100});
    CHECK(ids(planned(as_user("bob"), "", rank)) == Ids{1234, 1235});
    RunOptions front;
    front.ignore_image_user = true;
    CHECK(ids(planned(front, "bob")) == Ids{4711, 100});
    RunOptions root;
    root.root = true;
    CHECK(ids(planned(root, "bob")) == Ids{0, 0});
}

TEST_CASE("who one is can be said once only") {
    RunOptions options = as_user("bob");
    options.root = true;
    CHECK_THROWS_AS(make_identity_spec(options), Error);
    options.root = false;
    options.gid = "1";
    CHECK_THROWS_AS(make_identity_spec(options), Error);
    options = {};
    options.root = true;
    options.uid = "0";
    CHECK_THROWS_AS(make_identity_spec(options), Error);
}

TEST_CASE("a host name is one") {
    RunOptions options;
    options.hostname = "node-1.cluster";
    CHECK(make_identity_spec(options).hostname == "node-1.cluster");
    for (const std::string& wrong :
         {std::string(), std::string("a b"), std::string("a\n"), std::string(65, 'a')}) {
        CAPTURE(wrong);
        options.hostname = wrong;
        CHECK_THROWS_AS(make_identity_spec(options), Error);
    }
}
