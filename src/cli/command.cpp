// What the subcommands have in common.
// Must not: know any single subcommand.
#include "command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::cli {

namespace {

struct Words {
    std::vector<std::string> options;  ///< "--bind", "-b"
    bool help = false;
};

Words& words() {
    static Words noted;
    return noted;
}

}  // namespace

void note_words(int argc, char* argv[]) {
    for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
        const std::string_view word = argv[i];
        if (word.size() < 2 || word[0] != '-') continue;
        if (word[1] == '-') {
            words().options.emplace_back(word.substr(0, word.find('=')));
            words().help = words().help || word.starts_with("--help");
            continue;
        }
        for (const char letter : word.substr(1)) {  // "-wt", and harmlessly "-bSRC"
            words().options.push_back({'-', letter});
            words().help = words().help || letter == 'h';
        }
    }
}

bool was_typed(std::string_view names) {
    if (words().help) return true;
    while (!names.empty()) {
        std::string_view name = names.substr(0, names.find(','));
        names.remove_prefix(std::min(name.size() + 1, names.size()));
        if (name.starts_with('!')) name.remove_prefix(1);
        name = name.substr(0, name.find('{'));
        for (const auto& option : words().options)
            if (option == name) return true;
    }
    return false;
}

std::vector<runtime::Typed> with_origin(const std::vector<std::string>& values,
                                        const std::string& option) {
    std::vector<runtime::Typed> typed;
    for (size_t i = 0; i < values.size(); ++i)
        typed.push_back({values[i], fmt::format("{}, argument {}", option, i + 1)});
    return typed;
}

const runtime::Configuration& configuration() {
    static const runtime::Configuration loaded = runtime::load_configuration();
    return loaded;
}

std::string chosen_store(const std::string& flag) {
    return flag.empty() ? configuration().value("store") : flag;
}

void print_error(const Error& error) {
    // The level's own prefix takes the place of the rendered one.
    constexpr std::string_view kPrefix = "error: ";
    log::write(log::Level::error, error.render().substr(kPrefix.size()));
}

void print(const std::string& text) {
    sys::write_all(STDOUT_FILENO, text.data(), text.size(), "standard output");
}

}  // namespace slipway::cli
