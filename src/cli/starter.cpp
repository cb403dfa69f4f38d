// The starter: what starts containers, linked statically so that a rank starts at once. For all
// else it becomes the full program. Must not: link what loads libraries or asks name services.
#include "program.hpp"
#include "slipway/base/full_program.hpp"

namespace {

/// libcrypto's first look at the processor, before main(), is skipped: few starts need it, and a
/// virtual machine traps each of its instructions. libcrypto looks again when it is first used.
bool in_main = false;

constexpr slipway::cli::Subcommand kSubcommands[] = {
    {"run", slipway::cli::add_run},
    {"shell", slipway::cli::add_shell},
};

}  // namespace

// The linker sends libcrypto's calls here (--wrap).
extern "C" void __real_OPENSSL_cpuid_setup();
extern "C" void __wrap_OPENSSL_cpuid_setup() {
    if (in_main) __real_OPENSSL_cpuid_setup();
}

int main(int argc, char* argv[]) {
    in_main = true;
    slipway::declare_starter();
    return slipway::cli::run_program(kSubcommands, argc, argv);
}
