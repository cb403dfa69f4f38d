// The starter: what starts containers, linked statically so that a rank starts at once. For all
// else it becomes the full program. Must not: link what loads libraries or asks name services.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "plain_run.hpp"
#include "program.hpp"
#include "slipway/base/crc64.hpp"
#include "slipway/base/full_program.hpp"

namespace {

bool in_main = false;

}  // namespace

// What libraries do before main() is left out where few starts need it and a virtual machine traps
// it: their looks at the processor.
extern "C" {

// libcrypto's comes here by the linker's --wrap; it looks again when it is first used.
void __real_OPENSSL_cpuid_setup();
void __wrap_OPENSSL_cpuid_setup() {
    if (in_main) __real_OPENSSL_cpuid_setup();
}

// liblzma looks for the fastest of its functions of this name, which is not linked then.
std::uint64_t lzma_crc64(const std::uint8_t* data, std::size_t size, std::uint64_t before) {
    return slipway::crc64({data, size}, before);
}
}

int main(int argc, char* argv[]) {
    in_main = true;
    slipway::declare_starter();
    return slipway::cli::run_program(argc, argv, [&] {
        if (const auto run = slipway::cli::read_plain_run({argv + std::min(argc, 1), argv + argc}))
            return slipway::runtime::run(*run);
        slipway::need_full_program();
        return slipway::kExitOwnFailure;  // not reached: it is another program now
    });
}
