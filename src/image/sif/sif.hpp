// SIF files, as Apptainer and Singularity write them: where the root file system lies, and what the
// image says of itself. Private to the image room.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slipway/image/squashfs.hpp"

namespace slipway::image {

/// The primary system partition of a SIF, a squashfs.
struct SifRoot {
    uint64_t offset_bytes = 0;
    uint64_t size_bytes = 0;
    std::string architecture;           ///< in OCI's words; "" if the SIF does not say
    std::vector<std::string> warnings;  ///< what is in the SIF and will not be seen
};

/// Read the header and the descriptors. Throws: Error(invalid_image) with what is damaged;
/// Error(unsupported) for an encrypted root, or one that is no squashfs.
/// Source: github.com/apptainer/sif, pkg/sif (header and descriptor layout).
SifRoot find_sif_root(int fd, const std::string& subject);

/// Write a SIF of one squashfs, which becomes its primary system partition at a multiple of 4,096
/// bytes, with the configuration (JSON) and labels as data objects of their own. `modified`: the
/// time in its header, seconds since the epoch; the same input gives the same bytes. Returns the
/// file's size. Throws: Error(unsupported) for an architecture that SIF has no code for.
uint64_t write_sif(int squashfs_fd, const ImageConfig& config, int64_t modified,
                   const std::string& path);

/// The code of an architecture in a SIF ("02" for "amd64"); "" if it has none.
std::string sif_architecture_code(const std::string& architecture);

/// What Apptainer keeps in /.singularity.d, as a configuration: variables that its environment
/// files export with a plain value, the runscript as CMD, labels. What is shell code is not
/// run; `warnings` names it.
ImageConfig read_sif_config(const SquashfsImage& image, const SifRoot& root,
                            const std::string& subject, std::vector<std::string>& warnings);

/// The variables that a shell file exports at its top level with a plain value: export K=V,
/// export K="V", export K='V', export K="${K:-"V"}". Every other statement is counted in
/// `left_out`.
std::vector<std::string> plain_exports(const std::string& script, size_t& left_out);

}  // namespace slipway::image
