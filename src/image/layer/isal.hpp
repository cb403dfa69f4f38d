// ISA-L's inflate, twice as fast as zlib's.
// Private to the image room.
#pragma once

#include <isa-l/igzip_lib.h>

namespace slipway::image {

/// The functions of ISA-L that we call, under their own names.
struct Isal {
    decltype(&::isal_inflate_init) inflate_init = nullptr;
    decltype(&::isal_inflate) inflate = nullptr;
    decltype(&::isal_inflate_stateless) inflate_stateless = nullptr;
};

/// Load ISA-L on the first call: only gzip data need it, and loading it takes a tenth of the start
/// of a container. Throws: Error(not_found) when this machine has none.
const Isal& isal();

}  // namespace slipway::image
