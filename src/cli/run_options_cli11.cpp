// The options of a run, declared to CLI11 and taken from it.
// Must not: know any of them.
#include <CLI/CLI.hpp>

#include "command_line.hpp"
#include "run_options.hpp"

namespace slipway::cli {
namespace {

class Cli11Table final : public OptionTable {
 public:
    explicit Cli11Table(CLI::App& command) : command_(command) {}

    void values(const char* names, std::vector<std::string>& into, const char* help) override {
        command_.add_option(names, into, help)->allow_extra_args(false);
    }
    void value(const char* names, std::string& into, const char* help) override {
        command_.add_option(names, into, help)
            ->allow_extra_args(false)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    void flag(const char* names, bool& into, const char* help) override {
        command_.add_flag(names, into, help);
    }
    void flag(const char* names, std::string& into, const char* help) override {
        command_.add_flag(names, into, help);
    }

 private:
    CLI::App& command_;
};

}  // namespace

void add_run_options(CLI::App& command, RunFlags& flags) {
    command.prefix_command();
    Cli11Table table(command);
    declare_run_options(table, flags);
}

runtime::RunOptions take_run_options(const CLI::App& command, RunFlags& flags) {
    TypedRun typed;
    for (const CLI::Option* option : command.parse_order())
        if (!option->get_lnames().empty()) typed.options.push_back("--" + option->get_lnames()[0]);
    typed.words = command.remaining();
    typed.subcommand = full_name(command);
    if (command.get_option_no_throw("name") != nullptr) typed.before_image = "NAME ";
    return take_run_options(typed, flags);
}

}  // namespace slipway::cli
