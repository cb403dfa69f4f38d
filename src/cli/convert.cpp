// slipway convert: from one image format to another.
// Must not: know the formats.
#include "slipway/image/convert.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>

#include "command.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/image/sbom.hpp"

namespace slipway::cli {
namespace {

struct Options {
    std::string source;
    std::string destination;
    std::string codec;
    std::string store;
    std::string platform;
    bool sbom = false;
    image::SquashfsOptions squashfs;
};

/// Apptainer's own squashfs tools may know gzip only.
image::SquashfsCodec codec_of(const std::string& name, const std::string& destination) {
    if (name.empty() && destination.ends_with(".sif")) return image::SquashfsCodec::gzip;
    if (name == "gzip") return image::SquashfsCodec::gzip;
    if (name == "xz") return image::SquashfsCodec::xz;
    if (name == "lz4") return image::SquashfsCodec::lz4;
    return image::SquashfsCodec::zstd;
}

/// As build and bootstrap understand the variable.
std::optional<int64_t> source_date_epoch() {
    const char* text = std::getenv("SOURCE_DATE_EPOCH");
    if (text == nullptr || *text == '\0') return std::nullopt;
    const std::string seconds = text;
    if (seconds.size() > 12 || seconds.find_first_not_of("0123456789") != std::string::npos)
        throw Error(ErrorKind::usage,
                    fmt::format("SOURCE_DATE_EPOCH={} is no number of seconds", seconds))
            .hint("unset it, or set it to a time such as $(git log -1 --format=%ct)");
    return std::stoll(seconds);
}

int convert_and_list(const Options& options, const image::Store& store) {
    const auto report = image::convert_with_sbom(options.source, options.destination, store,
                                                 options.squashfs, options.platform);
    for (const auto& warning : report.warnings) log::warning("{}", warning);
    log::info("wrote {} ({}) with its list of software", options.destination,
              human_bytes(report.output_bytes));
    return 0;
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
    auto* command = app.add_subcommand("convert", "Convert an image to another format");
    auto options = std::make_shared<Options>();
    command->footer(
        "source: oci:DIR[:TAG], oci-archive:FILE[:TAG], docker-archive:FILE[:REF], docker://REF, a "
        "stored name, a directory, FILE.sqfs, FILE.sif, FILE.tar\n"
        "destination: FILE.sqfs, FILE.sif, FILE.tar[.gz|.zst], oci:DIR[:TAG], "
        "oci-archive:FILE[:TAG], "
        "docker-archive:FILE[:NAME], a directory, store:NAME");
    command->add_option("source", options->source, "what to convert")->required();
    command->add_option("destination", options->destination, "what to write")->required();
    command
        ->add_option("--compressor", options->codec,
                     "of a squashfs: zstd, gzip, xz, lz4 (default: zstd, in a SIF gzip)")
        ->check(CLI::IsMember({"zstd", "gzip", "xz", "lz4"}));
    command
        ->add_option("--level", options->squashfs.level,
                     "compression level (default: the compressor's usual)")
        ->check(CLI::Range(1, 22));
    command
        ->add_option("--block-size", options->squashfs.block_size_bytes,
                     "of a squashfs file, in bytes")
        ->transform(CLI::AsSizeValue(false));
    command->add_option("--threads", options->squashfs.threads,
                        "compressing threads (default: one a processor)");
    command->add_option("--platform", options->platform,
                        "OS/ARCH[/VARIANT] of an image of several (default: this machine's)");
    command->add_flag("--sbom", options->sbom,
                      "put a list of the software (SPDX) into the squashfs file");
    command->add_option("-s,--storage", options->store,
                        "the image store (default: $SLIPWAY_STORE)");
    command->callback([command, options, &action] {
        bool as_it_is = true;
        for (const char* how : {"--compressor", "--level", "--block-size"})
            as_it_is = as_it_is && command->count(how) == 0;
        action = [options, as_it_is] {
            options->squashfs.codec = codec_of(options->codec, options->destination);
            options->squashfs.source_date_epoch = source_date_epoch();
            if (!options->platform.empty())
                options->platform = image::normalize_platform(options->platform);
            const auto store = image::Store::open(chosen_store(options->store));
            if (options->sbom) return convert_and_list(*options, store);
            const auto report = image::convert(options->source, options->destination, store,
                                               options->squashfs, options->platform, as_it_is);
            for (const auto& warning : report.warnings) log::warning("{}", warning);
            log::info("{}", report.text);
            return 0;
        };
    });
}

}  // namespace slipway::cli
