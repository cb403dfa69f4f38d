// The full program: every subcommand. The starter (starter.cpp) starts it.
// Must not: do more than to list them.
#include "command_line.hpp"
#include "program.hpp"

namespace {

constexpr slipway::cli::Subcommand kSubcommands[] = {
    {"run", slipway::cli::add_run},
    {"shell", slipway::cli::add_shell},
    {"explain", slipway::cli::add_explain},
    {"build", slipway::cli::add_build},
    {"bootstrap", slipway::cli::add_bootstrap},
    {"convert", slipway::cli::add_convert},
    {"pull", slipway::cli::add_pull},
    {"push", slipway::cli::add_push},
    {"images", slipway::cli::add_images},
    {"inspect", slipway::cli::add_inspect},
    {"sign", slipway::cli::add_sign},
    {"verify", slipway::cli::add_verify},
    {"sbom", slipway::cli::add_sbom},
    {"pack", slipway::cli::add_pack},
    {"fetch", slipway::cli::add_fetch},
    {"rmi", slipway::cli::add_rmi},
    {"gc", slipway::cli::add_gc},
    {"instance", slipway::cli::add_instance},
    {"doctor", slipway::cli::add_doctor},
};

}  // namespace

int main(int argc, char* argv[]) {
    return slipway::cli::run_program(
        argc, argv, [&] { return slipway::cli::run_command_line(kSubcommands, argc, argv); });
}
