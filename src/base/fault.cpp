// Fault points, as the environment asks for them.
// Must not: be part of a release build.
#include "slipway/base/fault.hpp"

#include <signal.h>
#include <time.h>

#include <cstdlib>
#include <string_view>

#include "slipway/base/error.hpp"

namespace slipway::fault {

#ifdef SLIPWAY_FAULT_POINTS

void point(const char* name) {
    static const char* const wanted = std::getenv("SLIPWAY_FAULT");
    if (wanted == nullptr) return;
    const std::string_view text = wanted, wanted_name = text.substr(0, text.find(':'));
    if (wanted_name != name) return;
    const std::string_view action = text.substr(wanted_name.size() + 1);
    constexpr std::string_view kSleep = "sleep=";
    if (action == "kill") ::raise(SIGKILL);
    if (action == "stop") ::raise(SIGSTOP);
    if (action == "error") throw Error(ErrorKind::internal, std::string("fault point ") + name);
    if (action.starts_with(kSleep)) {
        const long milliseconds = std::strtol(action.data() + kSleep.size(), nullptr, 10);
        const timespec wait{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
        ::nanosleep(&wait, nullptr);
    }
}

#endif

}  // namespace slipway::fault
