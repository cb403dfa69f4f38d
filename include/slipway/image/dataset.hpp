// Datasets as one file: packing a directory, fetching what a catalogue describes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "slipway/image/squashfs.hpp"
#include "slipway/image/store.hpp"

namespace slipway::image {

/// Where a pack keeps its description and its files' sums (as sha256sum writes them).
inline constexpr const char* kPackDescriptionPath = ".slipway/pack.json";
inline constexpr const char* kPackSumsPath = ".slipway/SHA256SUMS";

struct DatasetDescription {
    std::string name, version, license, source, description;
};

struct DatasetReport {
    uint64_t files = 0, bytes = 0;
    uint64_t raw_files = 0;  ///< that were compressed already, and are stored as they are
    uint64_t output_bytes = 0;
    Digest sums;  ///< of the list of sums, which fixes all contents
    std::vector<std::string> warnings;
};

/// Write a directory as a pack: files in natural order ("img2" before "img10"), one directory after
/// the other, so that who reads them in this order reads the pack from front to back; what is
/// compressed already is not compressed again. All belongs to root. The same tree gives the same
/// bytes. Throws: as write_squashfs; Error(usage) for an output below the directory.
DatasetReport pack_directory(const std::string& directory, const std::string& output,
                             const DatasetDescription& description, const SquashfsOptions& options);

/// One file of a catalogue's entry.
struct CatalogueFile {
    enum class Unpack { none, tar, zip, gzip } unpack = Unpack::none;
    std::vector<std::string> urls;  ///< http, https or file; the first that answers is taken
    std::string path;               ///< in the pack; of an archive: the directory, "" the top
    std::string md5, sha256;        ///< hexadecimal; at least one
    std::optional<uint64_t> size_bytes;
};
struct CatalogueEntry {
    DatasetDescription about;
    std::vector<CatalogueFile> files;
    std::string origin;  ///< the file that says so
};

/// Understand an entry. Throws: Error(usage) naming file and member.
CatalogueEntry parse_catalogue_entry(const std::string& text, const std::string& file);
/// The entry of a file, or the one that a catalogue's directory has under a name (NAME.json), or
/// NAME@VERSION. Throws: Error(not_found) with near names.
CatalogueEntry find_catalogue_entry(const std::string& name, const std::string& catalogue);
/// Every entry of a catalogue's directory, by name; what cannot be understood is a warning.
std::vector<CatalogueEntry> read_catalogue(const std::string& catalogue,
                                           std::vector<std::string>& warnings);

/// Download an entry's files into the store (a broken download is continued by the next call),
/// check them, and write the pack. Archives are read as streams, never unpacked to disk.
/// Throws: Error(io) with the remedy, Error(invalid_data) for what is not what the entry says.
DatasetReport fetch_dataset(const CatalogueEntry& entry, const std::string& output,
                            const Store& store, const SquashfsOptions& options);

}  // namespace slipway::image
