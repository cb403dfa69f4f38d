// What tests/system/squashfs.py drives: the squashfs writer and server, without the command line.
// Must not: do anything that the image room does not do for the runtime and the converter too.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "slipway/base/file.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/squashfs.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {

struct Words {
    std::vector<std::string> words;
    size_t next = 0;
    bool more() const { return next < words.size(); }
    std::string take() {
        if (!more()) throw Error(ErrorKind::usage, "squashfs_probe: an argument is missing");
        return words[next++];
    }
    /// Take "NAME VALUE" if it is next.
    std::optional<std::string> option(const std::string& name) {
        if (!more() || words[next] != name) return std::nullopt;
        ++next;
        return take();
    }
};

/// write [OPTION VALUE]... OUTPUT LAYER...
int write_image(Words& words) {
    SquashfsOptions options;
    while (words.more() && words.words[words.next].starts_with("--")) {
        if (const auto threads = words.option("--threads"))
            options.threads = static_cast<unsigned>(std::stoul(*threads));
        else if (const auto packs = words.option("--packs"))
            options.pack_directory = *packs;
        else if (const auto block = words.option("--block"))
            options.block_size_bytes = static_cast<uint32_t>(std::stoul(*block));
        else if (const auto level = words.option("--level"))
            options.level = std::stoi(*level);
        else if (const auto epoch = words.option("--epoch"))
            options.source_date_epoch = std::stoll(*epoch);
        else if (const auto codec = words.option("--codec"))
            options.codec = *codec == "gzip"  ? SquashfsCodec::gzip
                            : *codec == "xz"  ? SquashfsCodec::xz
                            : *codec == "lz4" ? SquashfsCodec::lz4
                                              : SquashfsCodec::zstd;
        else
            throw Error(ErrorKind::usage, "squashfs_probe: unknown option " + words.take());
    }
    const std::string output = words.take();
    std::vector<LayerInput> layers;
    while (words.more()) {
        const std::string path = words.take();
        layers.push_back({sha256(path).hex(),
                          [path](Progress*) { return open_layer(sys::open(path, O_RDONLY), path); },
                          0});
    }
    ImageConfig config;
    config.env = {"PATH=/usr/bin:/bin"};
    const SquashfsReport report = write_squashfs(layers, config, output, options);
    for (const std::string& warning : report.warnings) fmt::print("warning: {}\n", warning);
    fmt::print("inodes {} input {} output {} duplicate {}\n", report.inodes, report.input_bytes,
               report.output_bytes, report.duplicate_bytes);
    return 0;
}

int check_image(Words& words) {
    const std::string path = words.take();
    const SquashfsImage image(sys::open(path, O_RDONLY), path);
    const SquashfsInfo info = image.info();
    fmt::print("codec {} block {} inodes {} modified {}\n", info.codec, info.block_size_bytes,
               info.inodes, info.modified);
    const auto config = image.config();
    fmt::print("config {}\n", config ? config->env.at(0) : "none");
    return 0;
}

/// repack IMAGE OUTPUT: through open_squashfs
int repack_image(Words& words) {
    const std::string path = words.take(), output = words.take();
    const auto open = [path] { return open_squashfs(sys::open(path, O_RDONLY), path); };
    write_squashfs(std::vector<LayerOpener>{open}, ImageConfig{}, output, {});
    return 0;
}

void write_map(const char* file, const std::string& text) {
    const UniqueFd fd = sys::open(file, O_WRONLY);
    sys::write_all(fd.get(), text.data(), text.size(), file);
}

/// In a new user and mount namespace: mount, send the device to the server, become the command.
int become_command(int socket, const std::string& mountpoint, std::vector<std::string> command) {
    const uid_t uid = ::getuid();
    const gid_t gid = ::getgid();
    sys::unshare(CLONE_NEWUSER | CLONE_NEWNS);
    write_map("/proc/self/setgroups", "deny");
    write_map("/proc/self/uid_map", fmt::format("0 {} 1", uid));
    write_map("/proc/self/gid_map", fmt::format("0 {} 1", gid));
    const UniqueFd device = sys::open("/dev/fuse", O_RDWR);
    sys::mount("slipway", mountpoint, "fuse", MS_RDONLY | MS_NOSUID | MS_NODEV,
               fuse_mount_options(device.get(), 0, 0));
    const int fds[] = {device.get()};
    const std::byte byte{1};
    sys::send_message(socket, {&byte, 1}, fds);
    std::vector<char*> argv;
    for (std::string& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    throw SysError("cannot run " + command.at(0), "execvp");
}

/// The most memory that this process has had, KiB.
void write_peak(const std::string& file) {
    const std::string status = read_file("/proc/self/status");
    const size_t at = status.find("VmHWM:") + 6;
    write_file_atomic(file, status.substr(at, status.find('k', at) - at));
}

/// serve [OPTION VALUE]... IMAGE MOUNTPOINT COMMAND...
int serve_image(Words& words) {
    SquashfsServerOptions options;
    std::string peak;
    while (words.more() && words.words[words.next].starts_with("--")) {
        if (const auto uid = words.option("--show-uid"))
            options.show_uid = options.show_gid = static_cast<uint32_t>(std::stoul(*uid));
        else if (const auto threads = words.option("--threads"))
            options.threads = static_cast<unsigned>(std::stoul(*threads));
        else if (const auto file = words.option("--shown-file"))
            options.mount_points.push_back({*file, false});
        else if (const auto directory = words.option("--shown-directory"))
            options.mount_points.push_back({*directory, true});
        else if (const auto program = words.option("--start"))
            options.programs_ahead.push_back(*program);
        else if (const auto output = words.option("--peak"))
            peak = *output;
        else
            throw Error(ErrorKind::usage, "squashfs_probe: unknown option " + words.take());
    }
    const std::string path = words.take();
    const std::string mountpoint = words.take();
    const std::vector<std::string> command(words.words.begin() + words.next, words.words.end());
    auto [ours, theirs] = sys::socketpair(SOCK_STREAM);
    ForkedChild child = fork_child(
        [&, socket = theirs.get()] { return become_command(socket, mountpoint, command); });
    theirs.reset();
    std::byte byte;
    std::vector<UniqueFd> received;
    if (sys::receive_message(ours.get(), {&byte, 1}, received) == 0 || received.empty())
        return wait_forked(child).shell_code();
    options.fuse_fd = received[0].get();
    int failure = 0;
    try {
        options.image = std::make_shared<SquashfsImage>(sys::open(path, O_RDONLY), path);
        failure = serve_squashfs(options);
    } catch (...) {
        received.clear();  // whoever waits in the mount gets ENOTCONN
        throw;
    }
    if (!peak.empty()) write_peak(peak);
    if (failure != 0) fmt::print(stderr, "served until: {}\n", std::strerror(failure));
    return wait_forked(child).shell_code();
}

}  // namespace

int main(int argc, char* argv[]) {
    Words words{{argv + 1, argv + argc}};
    try {
        const std::string verb = words.take();
        if (verb == "write") return write_image(words);
        if (verb == "check") return check_image(words);
        if (verb == "repack") return repack_image(words);
        if (verb == "serve") return serve_image(words);
        throw Error(ErrorKind::usage, "squashfs_probe: unknown verb " + verb);
    } catch (const Error& error) {
        std::fputs(error.render().c_str(), stderr);
        return error.exit_status();
    }
}
