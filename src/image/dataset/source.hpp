// The stream of a dataset's files on its way into a pack. Private to the image room.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "slipway/base/digest.hpp"
#include "slipway/image/dataset.hpp"
#include "slipway/image/entry.hpp"
#include "walk.hpp"

namespace slipway::image {

/// True when compressing these first bytes of a file is of no use: they begin as a compressed
/// format does, or zstd gains less than three per cent on them.
bool is_compressed_already(const std::string& head);

/// Passes on streams, one after the other; marks what is compressed already, sums every file, and
/// adds the list of sums and the description at the end.
class DatasetSource : public EntrySource {
 public:
    using Parts = std::vector<std::unique_ptr<EntrySource>>;
    DatasetSource(Parts parts, DatasetDescription about, DatasetReport& report);
    bool next(Entry& entry) override;
    size_t read(void* data, size_t size_bytes) override;

 private:
    bool next_of_parts(Entry& entry);
    void begin_file(Entry& entry);
    void end_file();
    bool next_of_ours(Entry& entry);

    Parts parts_;
    const DatasetDescription about_;
    DatasetReport& report_;
    size_t part_ = 0;
    std::string head_;  ///< of the current file, read ahead
    size_t head_at_ = 0;
    std::string path_;  ///< of the current file; "": none
    Sha256 hash_;
    int64_t newest_ = 0;
    std::map<std::string, std::string> sums_;  ///< by path
    std::vector<std::pair<std::string, std::string>> ours_;
    size_t step_ = 0;
};

/// One downloaded file as a stream of entries below `path`. Throws: Error(invalid_archive).
std::unique_ptr<EntrySource> open_download(UniqueFd fd, const CatalogueFile& file,
                                           const std::string& subject);

}  // namespace slipway::image
