// What the starter and the full program have in common: they choose the front, print errors and
// choose the exit status. Must not: do any work of a room itself.
#include "program.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <exception>
#include <string_view>

#include "ch_run.hpp"
#include "command.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::cli {
namespace {

/// The rank's number as the launcher gave it, for messages.
void tag_messages_with_rank() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* rank = std::getenv(name)) {
            log::set_tag(fmt::format("rank {}", rank));
            return;
        }
}

int report(const Error& error) {
    print_error(error);
    return error.exit_status();
}

}  // namespace

int run_program(int argc, char* argv[], const std::function<int()>& slipway) {
    sys::hold_standard_descriptors();
    tag_messages_with_rank();
    int status = kExitOwnFailure;
    try {
        if (argc > 0 && base_name(argv[0]) == "ch-run")
            status = ch_run({argv + 1, argv + argc});
        else
            status = slipway();
        log::repeat_warnings();
    } catch (const Error& error) {
        log::repeat_warnings();
        status = report(error);
    } catch (const std::bad_alloc&) {
        status = report(Error(ErrorKind::internal, "out of memory"));
    } catch (const std::exception& error) {
        status = report(Error(ErrorKind::internal, error.what()));
    }
    return status;
}

}  // namespace slipway::cli
