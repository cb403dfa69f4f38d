// Where the members of an uncompressed tar file lie. Private to the image room.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace slipway::image {

struct TarMember {
    uint64_t offset = 0;  ///< of its contents in the file
    uint64_t size_bytes = 0;
    std::string link_target;  ///< of a symbolic or hard link, a clean member path
};

/// Read all headers of an uncompressed tar (ustar, GNU, pax) and return its regular files and
/// links by clean member path. libarchive reads tars as streams only; this is for archives of whose
/// members one is opened at a time.
/// Throws: Error(invalid_archive) naming `subject`.
std::map<std::string, TarMember> index_tar(int fd, const std::string& subject);

}  // namespace slipway::image
