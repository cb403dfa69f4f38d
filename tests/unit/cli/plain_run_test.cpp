// The two readers of `slipway run`'s command line: what the plain one takes, CLI11 takes the same
// way.
#include "plain_run.hpp"

#include <CLI/CLI.hpp>
#include <random>
#include <sstream>

#include "catch.hpp"
#include "run_options.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;

namespace {

using Words = std::vector<std::string>;

std::optional<runtime::RunOptions> plainly(Words words) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    return cli::read_plain_run(pointers);
}

runtime::RunOptions by_cli11(Words words) {
    CLI::App app{"", "slipway"};
    int counted = 0;
    app.add_flag("-v,--verbose", counted, "");
    app.add_flag("-q,--quiet", counted, "");
    auto* command = app.add_subcommand("run", "");
    cli::RunFlags flags;
    cli::add_run_options(*command, flags);
    std::reverse(words.begin(), words.end());
    app.parse(words);
    return cli::take_run_options(*command, flags);
}

/// Everything that the command line can set, as text.
std::string shown(const runtime::RunOptions& run) {
    std::ostringstream text;
    const auto list = [&text](const char* name, const auto& values) {
        for (const auto& value : values)
            text << name << '<' << value.text << '|' << value.origin << ">\n";
    };
    const auto maybe = [&text](const char* name, const std::optional<std::string>& value) {
        if (value) text << name << '<' << *value << ">\n";
    };
    text << run.image << '\n';
    for (const auto& word : run.command) text << "word<" << word << ">\n";
    list("bind", run.binds);
    list("data", run.data);
    for (const auto& change : run.env)
        text << "env " << static_cast<int>(change.kind) << '<' << change.typed.text << '|'
             << change.typed.origin << ">\n";
    maybe("entrypoint", run.entrypoint);
    maybe("cd", run.directory);
    maybe("overlay", run.overlay);
    maybe("user", run.user);
    maybe("uid", run.uid);
    maybe("gid", run.gid);
    maybe("hostname", run.hostname);
    maybe("linger", run.linger);
    maybe("timeout", run.timeout);
    maybe("stage", run.stage);
    maybe("verify", run.verify);
    text << run.session << '|' << run.store << '|' << run.clean_env << run.keep_env << run.write
         << run.private_tmp << run.home << run.keep_accounts << run.root << run.fake_root_calls
         << run.detach_on_kill << run.site_mounts;
    return text.str();
}

/// The words that a test puts together: every option by each of its names, and what goes with it.
struct Vocabulary final : cli::OptionTable {
    std::vector<Words> phrases;

    void add(const char* names, bool with_value) {
        std::istringstream list(names);
        for (std::string name; std::getline(list, name, ',');) {
            if (name.starts_with('!')) name.erase(0, 1);
            name = name.substr(0, name.find('{'));
            if (!with_value) {
                phrases.push_back({name});
                if (name.starts_with("--")) phrases.push_back({name + "=x"});
                continue;
            }
            for (const char* value :
                 {"A=1", "/host:/inside:ro", "tmpfs=1g", "", "-x", "[a,b]", "a,b", "{x}", "{}",
                  "%%", "%1", "'x'", "\"x\"", "true", "5", "run", "--", "a b"}) {
                phrases.push_back({name, value});
                phrases.push_back({name + (name.starts_with("--") ? "=" : "") + value});
            }
        }
    }
    void values(const char* names, std::vector<std::string>&, const char*) override {
        add(names, true);
    }
    void value(const char* names, std::string&, const char*) override { add(names, true); }
    void flag(const char* names, bool&, const char*) override { add(names, false); }
    void flag(const char* names, std::string&, const char*) override { add(names, false); }
};

}  // namespace

TEST_CASE("ordinary command lines are read plainly") {
    const auto run = plainly({"run", "--bind", "/a:/b", "-e", "A=1", "--unset-env=B*", "-e", "C=2",
                              "--stage", "-w", "--no-site-mounts", "--session=none", "--session",
                              "mine", "image", "--", "ls", "-l"});
    REQUIRE(run);
    CHECK(run->image == "image");
    CHECK(run->command == Words{"ls", "-l"});
    CHECK(run->binds.at(0).text == "/a:/b");
    REQUIRE(run->env.size() == 3);
    CHECK(run->env[1].kind == runtime::EnvChange::Kind::unset);
    CHECK(run->env[2].typed.origin == "--env, argument 2");
    CHECK(run->stage == "auto");
    CHECK(run->write);
    CHECK_FALSE(run->site_mounts);
    CHECK(run->session == "mine");
    CHECK(plainly({"-v", "-q", "run", "image"}));
}

TEST_CASE("what is unusual is left to CLI11") {
    for (const Words& words : {Words{},
                               {"run"},
                               {"run", "--help"},
                               {"run", "-h", "image"},
                               {"run", "--dry-run", "image"},
                               {"run", "--no-such", "image"},
                               {"run", "--", "image"},
                               {"run", "-wt", "image"},
                               {"run", "-bSRC", "image"},
                               {"run", "--bind"},
                               {"run", "--write=false", "image"},
                               {"run", ""},
                               {"shell", "image"},
                               {"--version"},
                               {"-vv", "run", "image"},
                               {"run", "--bind=", "image"}})
        CHECK_FALSE(plainly(words));
}

TEST_CASE("what is read plainly is read as CLI11 reads it") {
    Vocabulary vocabulary;
    cli::RunFlags flags;
    cli::declare_run_options(vocabulary, flags);
    REQUIRE(vocabulary.phrases.size() > 300);
    std::mt19937 random(20261122);
    int taken = 0;
    for (int round = 0; round < 4000; ++round) {
        Words words{"run"};
        for (size_t count = random() % 4; count > 0; --count) {
            const Words& phrase = vocabulary.phrases[random() % vocabulary.phrases.size()];
            words.insert(words.end(), phrase.begin(), phrase.end());
        }
        static const std::vector<Words> kEnds = {{"image"},
                                                 {"image", "ls"},
                                                 {"image", "--", "ls", "-l"},
                                                 {"image", "-x", "--", "run"},
                                                 {"image", "--"},
                                                 {"++", "a"},
                                                 {"-", "a"},
                                                 {}};
        const Words& end = kEnds[random() % kEnds.size()];
        words.insert(words.end(), end.begin(), end.end());
        const auto run = plainly(words);
        if (!run) continue;
        ++taken;
        INFO([&] {
            std::string line;
            for (const auto& word : words) line += word + ' ';
            return line;
        }());
        std::string other;
        try {
            other = shown(by_cli11(words));
        } catch (const std::exception& error) {
            other = error.what();
        }
        CHECK(shown(*run) == other);
    }
    CHECK(taken > 500);
}
