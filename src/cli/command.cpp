// What the subcommands have in common.
// Must not: know any single subcommand.
#include "command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::cli {

void set_verbosity(int verbose, int quiet) {
    const int level = static_cast<int>(log::Level::info) + verbose - quiet;
    const int lowest = static_cast<int>(log::Level::error);
    const int highest = static_cast<int>(log::Level::debug);
    log::set_level(static_cast<log::Level>(std::clamp(level, lowest, highest)));
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
