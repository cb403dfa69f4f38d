// Opens libraries by their names.
// Must not: know any single library.
#include "shared_library.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include "slipway/base/error.hpp"
#include "slipway/base/full_program.hpp"

namespace slipway::image {

SharedLibrary::SharedLibrary(std::initializer_list<const char*> names, LibraryHelp help)
    : help_(std::move(help)) {
    need_full_program();
    std::string reason;
    for (const char* name : names) {
        handle_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) return;
        if (reason.empty()) reason = ::dlerror();
    }
    throw Error(ErrorKind::not_found, fmt::format("cannot load {}: {}", help_.name, reason))
        .note(help_.purpose)
        .hint(help_.package);
}

void* SharedLibrary::address_of(const char* name) const {
    void* address = ::dlsym(handle_, name);
    if (address == nullptr)
        throw Error(ErrorKind::unsupported,
                    fmt::format("this {} is too old: no {}", help_.name, name))
            .hint(help_.oldest);
    return address;
}

}  // namespace slipway::image
