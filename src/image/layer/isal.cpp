// Loads ISA-L.
// Must not: be called before somebody has gzip data.
#include "isal.hpp"

#include "../shared_library.hpp"

namespace slipway::image {
namespace {

Isal load() {
    const SharedLibrary library(
        {"libisal.so.2"}, {"ISA-L", "gzip data are decompressed by it",
                           "install the package libisal2 (Debian, Ubuntu) or isa-l (Fedora, RHEL)",
                           "install ISA-L 2.30 or later"});
    Isal isal;
    library.find("isal_inflate_init", isal.inflate_init);
    library.find("isal_inflate", isal.inflate);
    library.find("isal_inflate_stateless", isal.inflate_stateless);
    return isal;
}

}  // namespace

const Isal& isal() {
    static const Isal loaded = load();
    return loaded;
}

}  // namespace slipway::image
