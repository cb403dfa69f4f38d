// What a user may name as an image, and how the text is understood.
#pragma once

#include <string>
#include <string_view>

namespace slipway::image {

enum class RefKind {
    host,
    directory,
    squashfs,
    sif,
    oci_layout,
    oci_archive,     ///< an OCI layout in a tar file
    docker_archive,  ///< what "docker save" writes
    archive,         ///< a tar file: its members say of which kind
    tar,             ///< a tar file of a root directory
    registry,
    stored
};

/// A parsed image reference. `path` is set for the kinds that live in the file system, `name` for
/// the others.
struct ImageRef {
    RefKind kind = RefKind::stored;
    std::string text;  ///< as typed
    std::string path;  ///< directory, file, layout or archive
    std::string name;  ///< tag inside a layout or archive ("" = the only one), registry reference,
                       ///< or stored name
    std::string platform;  ///< of several: "linux/arm64", as normalize_platform() says; "" = this
                           ///< machine's
};

/// Understand `directory | file.sqfs | file.sif | file.tar | oci:DIR[:TAG] | oci-archive:FILE[:TAG]
/// | docker-archive:FILE[:REF] | tar:FILE | docker://REF | name | "/"`. A text with a "/" in front
/// or "./", or that names an existing directory or file, is a path; files are told apart by
/// content, then by suffix. Throws: Error(usage) for an empty or malformed text; Error(not_found)
/// for a path that is not there.
ImageRef parse_image_ref(std::string_view text);

/// Check and complete a stored name: "digits" -> "digits:latest". Throws: Error(usage) when it is
/// malformed.
std::string normalize_stored_name(std::string_view name);

/// Understand OS/ARCHITECTURE[/VARIANT], or one of the first two alone, in the words that OCI,
/// uname(2) and people use: "linux/aarch64" is "linux/arm64". Throws: Error(usage).
std::string normalize_platform(std::string_view text);

std::string_view to_string(RefKind kind);

}  // namespace slipway::image
