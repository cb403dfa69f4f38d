// Libraries that are opened when they are needed first: what runs a local image neither loads nor
// relocates them.
// Private to the image room.
#pragma once

#include <initializer_list>
#include <string>

namespace slipway::image {

/// What a user is told when the library is not there.
struct LibraryHelp {
    std::string name;     ///< "libcurl"
    std::string purpose;  ///< "registries are reached through it"
    std::string package;  ///< "install the package libcurl4"
    std::string oldest;   ///< "install libcurl 7.66 or later"
};

/// An open library; it is never closed.
class SharedLibrary {
 public:
    /// Open the first of the names that this machine has. Throws: Error(not_found).
    SharedLibrary(std::initializer_list<const char*> names, LibraryHelp help);

    /// Look a function up. Throws: Error(unsupported) when the library is too old to have it.
    template <typename Function>
    void find(const char* name, Function& function) const {
        function = reinterpret_cast<Function>(address_of(name));
    }

 private:
    void* address_of(const char* name) const;

    LibraryHelp help_;
    void* handle_ = nullptr;
};

}  // namespace slipway::image
