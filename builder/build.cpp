// `slipway build`: gathers what the planner asks for, has the plan carried out, names the image.
// Must not: parse, plan or execute by itself.
#include "slipway/builder/build.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "context.hpp"
#include "copy_items.hpp"
#include "execute.hpp"
#include "plan.hpp"
#include "preload.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/convert.hpp"
#include "slipway/image/reference.hpp"
#include "slipway/image/sbom.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

std::string host_platform() {
    utsname names{};
    ::uname(&names);
    const std::string machine = names.machine;
    if (machine == "x86_64") return "linux/amd64";
    if (machine == "aarch64") return "linux/arm64";
    return "linux/" + machine;
}

std::map<std::string, std::string> parse_build_args(const std::vector<std::string>& arguments) {
    std::map<std::string, std::string> result;
    for (const std::string& argument : arguments) {
        const size_t equals = argument.find('=');
        const std::string name = argument.substr(0, equals);
        if (name.empty())
            throw Error(ErrorKind::usage,
                        fmt::format("--build-arg {} has no name", slipway::quoted(argument)))
                .hint("write --build-arg NAME=VALUE");
        if (equals != std::string::npos) {
            result[name] = argument.substr(equals + 1);
        } else if (const char* value = std::getenv(name.c_str())) {
            result[name] = value;
        }
    }
    return result;
}

std::optional<int64_t> find_epoch(const std::map<std::string, std::string>& build_args) {
    const auto given = build_args.find("SOURCE_DATE_EPOCH");
    const char* environment = std::getenv("SOURCE_DATE_EPOCH");
    const std::string text = given != build_args.end() ? given->second
                             : environment             ? environment
                                                       : "";
    if (text.empty()) return std::nullopt;
    if (text.size() > 12 || text.find_first_not_of("0123456789") != std::string::npos)
        throw Error(ErrorKind::usage,
                    fmt::format("SOURCE_DATE_EPOCH={} is no number of seconds", text));
    return std::stoll(text);
}

/// One build: everything that is known before the plan, and what the planner asks for.
class Build {
 public:
    explicit Build(const BuildOptions& options)
        : options_(options),
          store_(image::Store::open(options.store)),
          memo_(memo_path(store_, options.context)),
          dockerfile_(find_dockerfile()),
          recipe_(read_recipe(read_dockerfile(), subject())),
          context_(options.context, read_ignore_file(options.context, dockerfile_), memo_) {}

    BuildPlan plan() {
        PlanRequest request;
        request.build_args = parse_build_args(options_.build_args);
        request.target = options_.target;
        request.source_date_epoch = find_epoch(request.build_args);
        request.network = !options_.no_network;
        request.platform = host_platform();
        request.preload = options_.preload;
        for (const std::string& name : options_.preload) bundles_[name] = find_bundle(name);
        PlanFacts facts;
        facts.base = [this](const std::string& name) { return base_facts(name); };
        facts.context_content = [this](const CopyAction& action) {
            return items_digest(context_, collect_items(context_, action, true));
        };
        facts.preload_content = [this](const std::string& name) { return bundle_content(name); };
        BuildPlan plan = plan_steps(recipe_, request, facts);
        memo_.save();
        return plan;
    }

    BuildReport run() {
        check_results();
        const BuildPlan steps = plan();
        for (const std::string& warning : steps.warnings) log::warning("{}", warning);
        ExecuteInput input{steps, recipe_.subject, context_, bases_, bundles_, !options_.no_cache};
        const ExecuteResult result = execute_plan(store_, input);
        BuildReport report;
        report.steps = result.steps;
        report.cached_steps = result.cached_steps;
        report.image = finish(result, report);
        if (!options_.output.empty()) write_output(report, steps.source_date_epoch);
        return report;
    }

 private:
    /// Hours of RUN must not end with a name or a place that was wrong from the beginning.
    void check_results() const {
        if (!options_.tag.empty()) image::normalize_stored_name(options_.tag);
        if (options_.output.empty()) return;
        const auto there = sys::stat_if_exists(AT_FDCWD, options_.output);
        if (there && S_ISDIR(there->st_mode))
            throw Error(ErrorKind::already_exists, fmt::format("cannot write {}: it is a directory",
                                                               slipway::quoted(options_.output)))
                .hint("name a file: -o FILE.sqfs");
        const std::string parent(parent_path(absolute_path(options_.output)));
        if (::access(parent.c_str(), W_OK | X_OK) != 0)
            throw SysError(
                fmt::format("cannot write into the directory {}", slipway::quoted(parent)),
                "access")
                .hint("make the directory, or write the image elsewhere: -o FILE.sqfs");
    }

    static std::string memo_path(const image::Store& store, const std::string& context) {
        const std::string name = sha256(absolute_path(context)).hex().substr(0, 32);
        return join_path(store.subdirectory("cache/context"), name);
    }

    std::string find_dockerfile() const {
        if (!sys::stat_if_exists(AT_FDCWD, options_.context))
            throw Error(ErrorKind::not_found, fmt::format("there is no build context {}",
                                                          slipway::quoted(options_.context)));
        if (options_.dockerfile == "-") return "";
        if (!options_.dockerfile.empty()) return options_.dockerfile;
        for (const char* name : {"Dockerfile", "Containerfile"}) {
            const std::string path = join_path(options_.context, name);
            if (sys::stat_if_exists(AT_FDCWD, path)) return path;
        }
        throw Error(ErrorKind::not_found,
                    fmt::format("there is no Dockerfile in {}", slipway::quoted(options_.context)))
            .hint("name it with -f FILE");
    }

    std::string subject() const {
        return dockerfile_.empty() ? "standard input" : std::string(base_name(dockerfile_));
    }

    std::string read_dockerfile() const {
        return dockerfile_.empty() ? read_all(STDIN_FILENO, "standard input")
                                   : read_file(dockerfile_);
    }

    BaseFacts base_facts(const std::string& name) {
        if (bases_.count(name) == 0) bases_[name] = open_base(name);
        return {bases_[name].config, bases_[name].layers};
    }

    image::OciImage open_base(const std::string& name) const {
        if (starts_with(name, "oci:") || starts_with(name, "docker-archive:") ||
            starts_with(name, "docker://"))
            return image::open_layered(image::parse_image_ref(name), store_);
        std::optional<image::OciImage> stored;
        try {
            stored = store_.find(name);
        } catch (const Error& error) {
            // A registry's spelling ("host:5000/a/b@sha256:...") need not be a name of the store.
            if (error.kind() != ErrorKind::usage) throw;
        }
        if (!stored) throw not_pulled(name);
        return std::move(*stored);
    }

    Error not_pulled(const std::string& name) const {
        Error error(ErrorKind::not_found,
                    fmt::format("the base image {} is not in the store", slipway::quoted(name)));
        std::vector<std::string> names;
        for (const auto& stored : store_.list()) names.push_back(stored.name);
        if (!names.empty()) error.note("the store has: " + join(names, ", "));
        const std::string repository = name.substr(0, name.find_first_of(":@"));
        const std::string tag =
            name.find(':') == std::string::npos ? "bookworm" : name.substr(name.find(':') + 1);
        if (repository == "debian" || repository == "ubuntu")
            return error.hint(
                fmt::format("make it from the distribution's mirror: slipway bootstrap "
                            "{} -t {}",
                            suite_of(tag), name));
        return error.hint(
            fmt::format("bring it as an archive: docker save {} -o base.tar, then "
                        "FROM docker-archive:base.tar, or slipway convert "
                        "docker-archive:base.tar store:{}",
                        name, name));
    }

    static std::string suite_of(const std::string& tag) {
        static const std::map<std::string, std::string> kSuites = {
            {"11", "bullseye"}, {"12", "bookworm"}, {"13", "trixie"},  {"latest", "bookworm"},
            {"20.04", "focal"}, {"22.04", "jammy"}, {"24.04", "noble"}};
        const std::string plain = tag.substr(0, tag.find("-slim"));
        const auto known = kSuites.find(plain);
        return known == kSuites.end() ? plain : known->second;
    }

    std::string bundle_content(const std::string& name) {
        DigestMemo memo(memo_path(store_, bundles_.at(name)));
        const BuildContext bundle(bundles_.at(name), {}, memo);
        CopyAction everything;
        everything.sources = {"."};
        const std::string digest = items_digest(bundle, collect_items(bundle, everything, true));
        memo.save();
        return digest;
    }

    image::OciImage finish(const ExecuteResult& result, BuildReport& report) {
        if (!options_.tag.empty()) {
            report.name = image::normalize_stored_name(options_.tag);
            return store_.tag(report.name, result.config, result.layers);
        }
        if (options_.output.empty())
            log::info(
                "the image has no name: only the build cache holds it (-t NAME names it, "
                "-o FILE.sqfs writes it)");
        image::OciImage image;
        image.config = result.config;
        image.config_digest = sha256(to_text(image::config_to_json(result.config)));
        image.layers = result.layers;
        image.blobs = std::make_shared<StoreBlobs>(store_);
        return image;
    }

    /// The blobs of an image without a name.
    class StoreBlobs : public image::BlobSource {
     public:
        explicit StoreBlobs(image::Store store) : store_(std::move(store)) {}
        UniqueFd open_blob(const Digest& digest) const override { return store_.open_blob(digest); }

     private:
        image::Store store_;
    };

    void write_output(BuildReport& report, std::optional<int64_t> epoch) {
        image::SquashfsOptions squashfs;
        squashfs.source_date_epoch = epoch;
        const auto written =
            options_.sbom
                ? image::write_squashfs_with_sbom(report.image, options_.output, store_, squashfs)
                : image::write_squashfs(report.image, options_.output, store_, squashfs);
        for (const std::string& warning : written.warnings) log::warning("{}", warning);
        report.squashfs_bytes = written.output_bytes;
    }

    const BuildOptions& options_;
    image::Store store_;
    DigestMemo memo_;
    std::string dockerfile_;
    Recipe recipe_;
    BuildContext context_;
    std::map<std::string, image::OciImage> bases_;
    std::map<std::string, std::string> bundles_;
};

}  // namespace

BuildReport build(const BuildOptions& options) { return Build(options).run(); }

Json plan_build(const BuildOptions& options) { return to_json(Build(options).plan()); }

}  // namespace slipway::builder
