// Reads an image's passwd and group before anything of it is mounted.
// Must not: be called for a plan that does not need them; a squashfs file costs milliseconds.
#include "plan_identity.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/squashfs.hpp"

namespace slipway::runtime {

ImageAccounts read_image_accounts(const image::RunnableImage& image) {
    if (image.kind == image::RunnableImage::Kind::squashfs) {
        const UniqueFd file = sys::open(image.path, O_RDONLY);
        const auto read = [&](const char* path) {
            return image::read_squashfs_file(file.get(), path, image.path).value_or("");
        };
        return {read("etc/passwd"), read("etc/group")};
    }
    const Root root(image.path);
    return {root.read_file_if_exists("etc/passwd").value_or(""),
            root.read_file_if_exists("etc/group").value_or("")};
}

}  // namespace slipway::runtime
