// `slipway bootstrap`: a base image from a distribution's mirror, made by mmdebstrap.
// Must not: install packages by itself, or need privilege.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

#include "apt_sources.hpp"
#include "bootstrap_owners.hpp"
#include "layer_index.hpp"
#include "plan.hpp"
#include "run_layer.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/builder/build.hpp"
#include "slipway/image/reference.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

constexpr const char* kHostPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// mmdebstrap's own /dev gives terminals to a user that is no part of our user namespace.
constexpr const char* kDeviceHook =
    "set -e; mkdir -p \"$1/dev/pts\" \"$1/dev/shm\"; "
    "for d in null zero full random urandom tty; do "
    "[ -e \"/dev/$d\" ] || continue; : > \"$1/dev/$d\"; mount --bind \"/dev/$d\" \"$1/dev/$d\"; "
    "done; "
    "mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts \"$1/dev/pts\"";
constexpr const char* kAptHelper = "/usr/lib/apt/apt-helper";

std::string require_mmdebstrap() {
    const char* path = std::getenv("PATH");
    const auto program =
        find_program("mmdebstrap", fmt::format("{}:{}", path ? path : "", kHostPath));
    if (!program)
        throw Error(ErrorKind::not_found, "mmdebstrap is not installed on this machine")
            .hint(
                "install it (apt-get install mmdebstrap; dnf install mmdebstrap), or bring a base "
                "image as an archive: slipway convert docker-archive:FILE store:NAME");
    return *program;
}

void require_suite_name(const std::string& suite) {
    if (suite.empty() ||
        suite.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") != std::string::npos)
        throw Error(ErrorKind::usage,
                    fmt::format("{} is no name of a suite", slipway::quoted(suite)))
            .hint("name one like bookworm, trixie or noble");
}

/// Options of the host's apt that belong to its way to the mirror, "Acquire::X value;" lines.
std::vector<std::string> host_apt_options() {
    std::vector<std::string> options;
    if (!find_program("apt-config", kHostPath)) return options;
    CommandOptions dump;
    dump.argv = {"apt-config", "dump"};
    const CommandResult result = run_command(dump);
    for (const std::string& line : split(result.output, '\n')) {
        const std::string name = line.substr(0, line.find(' '));
        const bool wanted = starts_with(name, "Acquire::Check-Valid-Until") ||
                            starts_with(name, "Acquire::Retries") ||
                            (starts_with(name, "Acquire::http") &&
                             to_lower(name).find("proxy") != std::string::npos);
        if (wanted && line.find("\"\"") == std::string::npos) options.push_back(line);
    }
    return options;
}

/// The options that belong to the mirror, not to this machine: they go into the image, where apt
/// will ask the same mirror.
std::string options_for_image(const std::vector<std::string>& options) {
    std::string text;
    for (const std::string& option : options)
        if (to_lower(option).find("proxy") == std::string::npos) text += option + "\n";
    return text;
}

enum class Probe { there, absent, unreachable };

/// Ask the mirror for a suite's release file, the way apt would.
Probe probe_suite(const AptSource& source, const std::string& scratch, std::string& answer) {
    for (const char* name : {"InRelease", "Release"}) {
        CommandOptions helper;
        helper.argv = {kAptHelper,
                       "-o",
                       "Acquire::Retries=1",
                       "download-file",
                       fmt::format("{}/dists/{}/{}", source.uri, source.suite, name),
                       join_path(scratch, name)};
        helper.capture_errors = true;
        const CommandResult result = run_command(helper);
        if (result.status.success()) return Probe::there;
        answer = result.errors;
        if (answer.find("404") == std::string::npos) return Probe::unreachable;
    }
    return Probe::absent;
}

/// The sources that the mirror has; the main one must be there.
std::vector<AptSource> existing_sources(std::vector<AptSource> sources, const std::string& suite,
                                        const std::string& scratch) {
    if (!sys::stat_if_exists(AT_FDCWD, kAptHelper)) return sources;
    std::vector<AptSource> found;
    for (const AptSource& source : sources) {
        std::string answer;
        const Probe probe = probe_suite(source, scratch, answer);
        if (probe == Probe::there) {
            found.push_back(source);
        } else if (probe == Probe::absent && source.suite == suite) {
            throw Error(ErrorKind::not_found, fmt::format("the mirror {} has no suite {}",
                                                          source.uri, slipway::quoted(suite)))
                .hint("check the spelling; an old release may be on another mirror (--mirror URL)");
        } else if (probe == Probe::unreachable) {
            Error error(ErrorKind::io, fmt::format("the mirror {} cannot be reached", source.uri));
            for (const std::string& line : split(answer, '\n'))
                if (starts_with(line, "E: ") || starts_with(line, "Err:")) error.note(line);
            throw error.hint(
                "check the network and its proxy (http_proxy, /etc/apt/apt.conf.d), or "
                "name another mirror with --mirror URL");
        } else {
            log::info("{} is not on {}: left out", source.suite, source.uri);
        }
    }
    return found;
}

class Bootstrap {
 public:
    explicit Bootstrap(const BootstrapOptions& options)
        : options_(options),
          program_(require_mmdebstrap()),
          name_(image::normalize_stored_name(options.tag)),
          store_(image::Store::open(options.store)),
          place_(store_.temporary_directory()),
          root_(join_path(place_.path(), "root")),
          packages_(store_.subdirectory("cache/apt/" + options.suite)) {}

    image::OciImage run() {
        require_run_support(store_);
        const Distribution host = read_host_distribution();
        sources_ = existing_sources(
            plan_sources(options_.suite, options_.mirror, host, read_host_sources()),
            options_.suite, place_.path());
        require_keyrings();
        apt_options_ = host_apt_options();
        log::info("bootstrapping {} from {}", options_.suite, sources_[0].uri);
        log::info("downloading and installing packages, about a minute");
        install();
        const image::Layer layer = write_layer();
        return store_.tag(name_, make_config(distribution_of(options_.suite, host)), {layer});
    }

 private:
    void require_keyrings() const {
        for (const AptSource& source : sources_)
            if (!source.signed_by.empty() && !sys::stat_if_exists(AT_FDCWD, source.signed_by))
                throw Error(ErrorKind::not_found, fmt::format("the keyring {} is not installed",
                                                              slipway::quoted(source.signed_by)))
                    .note(fmt::format("needed to check the signatures of {}", source.uri))
                    .hint(
                        "install the distribution's keyring package (debian-archive-keyring or "
                        "ubuntu-keyring)");
    }

    std::vector<std::string> command() const {
        // Downloaded packages come from and go to the store's cache, so that a second bootstrap
        // downloads only what is new; hard links, for they lie on one file system.
        const std::string cache = packages_;
        const std::string keep =
            "for f in \"$1\"/var/cache/apt/archives/*.deb; do [ ! -e \"$f\" ] || "
            "cp -l -n \"$f\" '" +
            cache + "/'; done";
        std::vector<std::string> argv = {
            program_,
            "--mode=root",
            "--variant=" + options_.variant,
            "--format=directory",
            "--skip=download/empty,essential/unlink,check/qemu,chroot/mount/dev,chroot/mount/sys",
            "--aptopt=APT::Sandbox::User \"root\"",
            std::string("--setup-hook=") + kDeviceHook,
            "--setup-hook=mkdir -p \"$1/var/cache/apt/archives\"; for f in '" + cache +
                "'/*.deb; do [ ! -e \"$f\" ] || cp -l \"$f\" \"$1/var/cache/apt/archives/\"; done",
            "--extract-hook=" + keep,
            "--customize-hook=" + keep,
            "--customize-hook=rm -f \"$1/etc/apt/apt.conf.d/99mmdebstrap\""};
        for (const std::string& option : apt_options_) argv.push_back("--aptopt=" + option);
        if (!log::enabled(log::Level::verbose)) argv.push_back("--quiet");
        if (!options_.include.empty()) argv.push_back("--include=" + join(options_.include, ","));
        argv.push_back(options_.suite);
        argv.push_back(root_);
        for (const AptSource& source : sources_) argv.push_back(to_line(source));
        return argv;
    }

    std::vector<std::string> environment() const {
        std::vector<std::string> result = {
            fmt::format("PATH={}", kHostPath), "HOME=" + place_.path(), "LC_ALL=C.UTF-8",
            "DEBIAN_FRONTEND=noninteractive", "TMPDIR=" + place_.path()};
        for (const char* name : {"http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "HTTP_PROXY",
                                 "HTTPS_PROXY", "NO_PROXY", "SOURCE_DATE_EPOCH"})
            if (const char* value = std::getenv(name))
                result.push_back(fmt::format("{}={}", name, value));
        return result;
    }

    void install() const {
        sys::fchmodat(AT_FDCWD, place_.path(), 0755);
        const ExitStatus status = run_as_emulated_root(command(), environment(), "/");
        if (!status.success())
            throw Error(ErrorKind::command_failed,
                        fmt::format("mmdebstrap ended with {}", status.describe()))
                .note(
                    fmt::format("while bootstrapping {} from {}", options_.suite, sources_[0].uri))
                .hint("its own messages above say why");
        const std::string text = options_for_image(apt_options_);
        if (!text.empty())
            write_file_atomic(join_path(root_, "etc/apt/apt.conf.d/80bootstrap-mirror"), text,
                              0644);
        make_mount_points();
    }

    /// Empty files where a run shows the host's: without them each start has to put a copy of /etc
    /// made of mounts over the image's, as nothing can be made in a read-only image.
    void make_mount_points() const {
        for (const char* name : {"etc/hosts", "etc/resolv.conf", "etc/machine-id"}) {
            const std::string path = join_path(root_, name);
            if (!sys::stat_if_exists(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW))
                write_file_atomic(path, "", 0644);
        }
    }

    /// Everything below the root but device nodes, which no ordinary user can make.
    class Filter : public image::EntrySource {
     public:
        Filter(image::EntrySource& source, const std::map<std::string, RecoveredOwner>& owners)
            : source_(source), owners_(owners) {}
        bool next(image::Entry& entry) override {
            while (source_.next(entry)) {
                if (starts_with(entry.path, "dev/")) continue;
                const auto owner = owners_.find(entry.path);
                if (owner == owners_.end()) return true;
                entry.uid = owner->second.uid;
                entry.gid = owner->second.gid;
                if (owner->second.mode != 0 && entry.type != image::EntryType::symlink)
                    entry.mode = owner->second.mode;
                ++recovered_;
                return true;
            }
            return false;
        }
        size_t read(void* data, size_t size_bytes) override {
            return source_.read(data, size_bytes);
        }
        size_t recovered() const { return recovered_; }

     private:
        image::EntrySource& source_;
        const std::map<std::string, RecoveredOwner>& owners_;
        size_t recovered_ = 0;
    };

    image::Layer write_layer() {
        const auto owners = recover_owners(root_, packages_);
        auto files = image::open_directory(
            root_, [](const std::string&, uint32_t, uint32_t) { return std::pair(0u, 0u); });
        Filter filtered(*files, owners);
        LayerIndex index;
        IndexingSource indexed(filtered, index);
        const image::Layer layer = store_.add_layer([&](int fd) {
            image::LayerWriter writer(fd, image::LayerCompression::zstd, epoch());
            writer.add_all(indexed);
            return writer.finish();
        });
        save_layer_index(store_, layer, index);
        log::info(
            "{} files, {} owners other than root recovered from the packages; owners that "
            "other packages' scripts set are not kept",
            index.entries.size(), filtered.recovered());
        return layer;
    }

    static std::optional<int64_t> epoch() {
        const char* text = std::getenv("SOURCE_DATE_EPOCH");
        if (text == nullptr || *text == '\0') return std::nullopt;
        return std::strtoll(text, nullptr, 10);
    }

    image::ImageConfig make_config(const std::string& distribution) const {
        const std::time_t now = epoch().value_or(std::time(nullptr));
        char created[32];
        std::strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
        image::ImageConfig config;
        config.created = created;
        config.env = {fmt::format("PATH={}", kDefaultPath)};
        config.cmd = {"bash"};
        config.labels = {{"org.opencontainers.image.title", distribution + " " + options_.suite},
                         {"org.opencontainers.image.version", options_.suite},
                         {"org.opencontainers.image.base.name", sources_[0].uri},
                         {"org.opencontainers.image.created", created}};
        config.history = {
            {created, fmt::format("slipway bootstrap {} ({})", options_.suite, options_.variant),
             "", false}};
        return config;
    }

    const BootstrapOptions& options_;
    std::string program_;
    std::string name_;
    image::Store store_;
    TempDir place_;
    std::string root_;
    std::string packages_;
    std::vector<AptSource> sources_;
    std::vector<std::string> apt_options_;
};

}  // namespace

image::OciImage bootstrap(const BootstrapOptions& options) {
    require_suite_name(options.suite);
    return Bootstrap(options).run();
}

}  // namespace slipway::builder
