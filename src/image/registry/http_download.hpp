// Downloading a file by its URL, in parts. Private to the image room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "http.hpp"
#include "slipway/base/progress.hpp"

namespace slipway::image {

/// Append to an open file what it lacks of an http or https URL: begins at the file's end (Range),
/// begins anew where the server gives the whole, follows redirects (never from https to http), and
/// tries again where the connection broke. `largest` bytes are the most that will be taken.
/// Throws: Error(io), Error(not_found) naming URL and cause; what came stays in the file.
void download(HttpClient& client, const std::string& url, int fd, const std::string& path,
              std::optional<uint64_t> largest, Progress& progress);

}  // namespace slipway::image
