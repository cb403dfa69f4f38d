// The starter: what starts containers, linked statically so that a rank starts at once. For all
// else it becomes the full program. Must not: link what loads libraries or asks name services.
#include "program.hpp"
#include "slipway/base/full_program.hpp"

namespace {

constexpr slipway::cli::Subcommand kSubcommands[] = {
    {"run", slipway::cli::add_run},
    {"shell", slipway::cli::add_shell},
};

}  // namespace

int main(int argc, char* argv[]) {
    slipway::declare_starter();
    return slipway::cli::run_program(kSubcommands, argc, argv);
}
