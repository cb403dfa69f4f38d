// What a user may name as an image, and how the text is understood.
#pragma once

#include <string>
#include <string_view>

namespace slipway::image {

enum class RefKind { host, directory, squashfs, sif, oci_layout, docker_archive, registry, stored };

/// A parsed image reference. `path` is set for the kinds that live in the file system, `name` for
/// the others.
struct ImageRef {
    RefKind kind = RefKind::stored;
    std::string text;  ///< as typed
    std::string path;  ///< directory, file, layout or archive
    std::string name;  ///< tag inside a layout or archive ("" = the only one), registry reference,
                       ///< or stored name
};

/// Understand `directory | file.sqfs | file.sif | oci:DIR[:TAG] | docker-archive:FILE[:REF] |
/// docker://REF | name | "/"`. A text with a "/" in front or "./", or that names an existing
/// directory or file, is a path; files are told apart by content, then by suffix. Throws:
/// Error(usage) for an empty or malformed text; Error(not_found) for a path that is not there.
ImageRef parse_image_ref(std::string_view text);

/// Check and complete a stored name: "digits" -> "digits:latest". Throws: Error(usage) when it is
/// malformed.
std::string normalize_stored_name(std::string_view name);

std::string_view to_string(RefKind kind);

}  // namespace slipway::image
