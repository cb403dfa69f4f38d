// What Slipway writes into an image beside the image's own files: the configuration, and what
// ch-run and Apptainer look for. Private to the image room.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "slipway/image/config.hpp"
#include "slipway/image/entry.hpp"

namespace slipway::image {

/// One entry with a file's contents.
struct AddedFile {
    Entry entry;
    std::string content;
};

/// What the image has at a path, no link followed at its end.
enum class There { nothing, directory, other };
using LookUp = std::function<There(const std::string& path)>;

/// Plan what is added to an image, parents first; pure. The configuration at kConfigPathInImage
/// replaces what is there; ch-run's /ch/environment and Apptainer's /.singularity.d are written
/// only where the image has none, and not into data packs. The configuration lists them under
/// "slipway", so that who reads the image back can leave them out. `source`: the digest of the
/// manifest it was made from, or "".
std::vector<AddedFile> plan_added_files(const ImageConfig& config, const std::string& source,
                                        const LookUp& look_up);
/// The same as a layer.
std::unique_ptr<EntrySource> stream_added_files(std::vector<AddedFile> files);

/// Reads a small regular file of an image; std::nullopt if there is none.
using ReadSmall = std::function<std::optional<std::string>(const std::string& path)>;
/// Whether plan_added_files put the file at `path` there, and nobody changed it since.
bool is_added_file(const std::string& path, const std::string& document,
                   const ReadSmall& read_small);
/// A tree without what plan_added_files put there: the configuration, and what it lists, as far as
/// its contents are still those. `document`: the configuration's text, "" if there is none.
std::unique_ptr<EntrySource> without_added_files(std::unique_ptr<EntrySource> source,
                                                 const std::string& document,
                                                 const ReadSmall& read_small);

}  // namespace slipway::image
