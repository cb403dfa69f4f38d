// What software an image holds, and that as an SPDX document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slipway/image/squashfs.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// Where an image keeps its own document.
inline constexpr const char* kSbomPathInImage = ".slipway/sbom.spdx.json";

struct SoftwarePackage {
    enum class Kind { deb, rpm, apk, pypi } kind = Kind::deb;
    std::string name, version;
    std::string architecture;  ///< in the package manager's words; "" if it has none
    std::string supplier;      ///< maintainer or vendor; "" if not told
    std::string license;       ///< as the package says it; "" if it does not
    bool license_is_spdx = false;
    std::string source;    ///< the source package, "" if it has the package's name
    std::string found_in;  ///< path of the database or metadata file
    auto operator<=>(const SoftwarePackage&) const = default;
};

struct SoftwareInventory {
    std::vector<SoftwarePackage> packages;  ///< sorted, each once
    std::string os_id, os_version;          ///< of /etc/os-release
    std::vector<std::string> warnings;      ///< databases that were found and could not be read
};

/// Read the databases of dpkg (status and status.d), rpm (sqlite), apk and the metadata of Python's
/// packages from layers, base first. One pass, nothing is unpacked.
SoftwareInventory read_inventory(const std::vector<LayerOpener>& layers);
/// The same of any image reference.
SoftwareInventory read_inventory(const std::string& reference, const Store& store);

/// An SPDX 2.3 document in JSON. The same inventory, name and time give the same bytes.
std::string spdx_document(const SoftwareInventory& inventory, const std::string& image_name,
                          int64_t created);
/// $SOURCE_DATE_EPOCH, else now. Throws: Error(usage) when it is no number.
int64_t document_time();

/// The document as a layer of one file, to be put on top of others.
LayerOpener sbom_layer(const std::string& document, int64_t time);

/// As write_squashfs and convert, with the image's document inside, at kSbomPathInImage. It is
/// named after the output. Throws: Error(usage) when the destination is no FILE.sqfs.
SquashfsReport write_squashfs_with_sbom(const OciImage& image, const std::string& output,
                                        const Store& store, SquashfsOptions options);
SquashfsReport convert_with_sbom(const std::string& source, const std::string& destination,
                                 const Store& store, const SquashfsOptions& options,
                                 const std::string& platform = {});

}  // namespace slipway::image
