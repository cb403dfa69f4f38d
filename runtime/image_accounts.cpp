// Reads an image's passwd and group before anything of it is mounted.
// Must not: be called for a plan that does not need them; a squashfs file costs milliseconds.
#include "plan_identity.hpp"
#include "slipway/image/inside.hpp"

namespace slipway::runtime {

ImageAccounts read_image_accounts(const image::RunnableImage& image) {
    const image::ImageInside inside(image);
    return {inside.read_file("/etc/passwd").value_or(""),
            inside.read_file("/etc/group").value_or("")};
}

}  // namespace slipway::runtime
