// The databases of package managers, as texts. Private to the image room.
#pragma once

#include <string>
#include <vector>

#include "slipway/image/sbom.hpp"

namespace slipway::image {

using Packages = std::vector<SoftwarePackage>;

/// dpkg's status file, or one file of status.d. Only what is installed.
Packages parse_dpkg(const std::string& text, const std::string& path);
/// apk's "installed".
Packages parse_apk(const std::string& text, const std::string& path);
/// METADATA or PKG-INFO of one Python package; nothing if it has no name.
Packages parse_python(const std::string& text, const std::string& path);
/// One header of rpm, as its database holds it: without the magic. Source: rpm's
/// docs/manual/format. Throws: Error(invalid_image).
SoftwarePackage parse_rpm_header(const std::string& blob, const std::string& path);
/// rpm's database in SQLite, the whole file. Throws: Error(not_found) without libsqlite3,
/// Error(invalid_image).
Packages read_rpm_database(std::string database, const std::string& path);

}  // namespace slipway::image
