// Fault points, as the environment asks for them.
// Must not: be part of a release build.
#include "slipway/base/fault.hpp"

#include <signal.h>
#include <time.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "slipway/base/error.hpp"

namespace slipway::fault {

#ifdef SLIPWAY_FAULT_POINTS

void point(const char* name) {
    static const char* const wanted = std::getenv("SLIPWAY_FAULT");
    if (wanted == nullptr) return;
    const std::string_view text = wanted, place = text.substr(0, text.find(':'));
    const std::string_view wanted_name = place.substr(0, place.find('@'));
    if (wanted_name != name) return;
    if (place.size() > wanted_name.size()) {
        static std::atomic<long> passed{0};
        if (++passed != std::strtol(place.data() + wanted_name.size() + 1, nullptr, 10)) return;
    }
    const std::string_view action = text.substr(place.size() + 1);
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
