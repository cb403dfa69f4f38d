// slipway pack: a directory of data as one file.
// Must not: know how packs are made.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "dataset_text.hpp"
#include "slipway/base/log.hpp"
#include "slipway/image/sbom.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string directory, output;
    image::DatasetDescription about;
    image::SquashfsOptions squashfs;
};

}  // namespace

void tell_dataset(const std::string& output, const image::DatasetReport& report) {
    for (const auto& warning : report.warnings) log::warning("{}", warning);
    log::info("wrote {}: {} files, {} of data in {}; {} stored as they are; sums {}", output,
              report.files, human_bytes(report.bytes), human_bytes(report.output_bytes),
              report.raw_files, report.sums.text());
}

void add_pack(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("pack", "Make one file of a directory of data");
    auto options = std::make_shared<Options>();
    command->add_option("directory", options->directory, "what to pack")->required();
    command->add_option("-o,--output", options->output, "the pack: FILE.sqfs")->required();
    command->add_option("--name", options->about.name, "the dataset's name");
    command->add_option("--data-version", options->about.version, "its version");
    command->add_option("--license", options->about.license, "its licence, for example CC-BY-4.0");
    command->add_option("--source", options->about.source, "where it comes from (URL)");
    command->add_option("--description", options->about.description, "one line for people");
    command->add_option("--level", options->squashfs.level, "zstd's compression level (default: 3)")
        ->check(CLI::Range(1, 22));
    command
        ->add_option("--block-size", options->squashfs.block_size_bytes,
                     "of the pack, in bytes (default: 128KiB)")
        ->transform(CLI::AsSizeValue(false));
    command->callback([options, &action] {
        action = [options] {
            if (std::getenv("SOURCE_DATE_EPOCH") != nullptr)
                options->squashfs.source_date_epoch = image::document_time();
            tell_dataset(options->output, image::pack_directory(options->directory, options->output,
                                                                options->about, options->squashfs));
            return 0;
        };
    });
}

}  // namespace slipway::cli
