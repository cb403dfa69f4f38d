// Packs a directory as a dataset.
// Must not: know where a dataset comes from.
#include "slipway/image/dataset.hpp"

#include <fmt/format.h>

#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "source.hpp"
#include "write.hpp"

namespace slipway::image {
namespace {

/// What the image's config document says of a pack, in OCI's words, so that every tool shows it.
ImageConfig config_of(const DatasetDescription& about) {
    ImageConfig config;
    const auto add = [&](const char* key, const std::string& value) {
        if (!value.empty()) config.labels[std::string("org.opencontainers.image.") + key] = value;
    };
    add("title", about.name);
    add("version", about.version);
    add("licenses", about.license);
    add("source", about.source);
    add("description", about.description);
    return config;
}

}  // namespace

DatasetReport write_dataset(const PartsOpener& open_parts, const DatasetDescription& about,
                            const std::string& output, const SquashfsOptions& options) {
    DatasetReport report;
    const LayerOpener open = [&] {
        report = {};
        return std::make_unique<DatasetSource>(open_parts(), about, report);
    };
    const SquashfsReport written =
        write_squashfs(std::vector<LayerOpener>{open}, config_of(about), output, options);
    report.output_bytes = written.output_bytes;
    report.warnings.insert(report.warnings.end(), written.warnings.begin(), written.warnings.end());
    return report;
}

DatasetReport pack_directory(const std::string& directory, const std::string& output,
                             const DatasetDescription& description,
                             const SquashfsOptions& options) {
    const std::string top = lexically_normal(absolute_path(directory)) + "/";
    if (lexically_normal(absolute_path(output)).starts_with(top))
        throw Error(ErrorKind::usage,
                    fmt::format("the pack {} would lie in the directory that it packs",
                                slipway::quoted(output)))
            .hint("write it elsewhere: -o FILE.sqfs");
    return write_dataset(
        [&] {
            DatasetSource::Parts parts;
            parts.push_back(open_dataset_directory(directory));
            return parts;
        },
        description, output, options);
}

}  // namespace slipway::image
