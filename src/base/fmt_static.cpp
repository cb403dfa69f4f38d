// The functions of libfmt that Slipway calls, compiled in: a start then relocates a tenth.
// Must not: be used with an fmt other than 9 (CMake sees to it): this is what that version leaves
// to its library.
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>

#include <locale>

template std::locale fmt::detail::locale_ref::get<std::locale>() const;

namespace slipway {

// Taking their addresses makes the compiler emit them, and all that they call.
extern const void* const kFmtFunctions[];
const void* const kFmtFunctions[] = {
    reinterpret_cast<const void*>(
        static_cast<std::string (*)(fmt::string_view, fmt::format_args)>(&fmt::vformat)),
    reinterpret_cast<const void*>(
        static_cast<void (*)(fmt::string_view, fmt::format_args)>(&fmt::vprint)),
    reinterpret_cast<const void*>(static_cast<bool (*)(uint32_t)>(&fmt::detail::is_printable)),
    reinterpret_cast<const void*>(
        static_cast<void (*)(const char*)>(&fmt::detail::throw_format_error))};

}  // namespace slipway
