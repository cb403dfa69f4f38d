// ch-run: Charliecloud's command line, for scripts that were written for it.
// Must not: decide what is mounted; that is the runtime's plan.
#include "ch_run.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "command.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/runtime/join.hpp"

namespace slipway::cli {
namespace {

using Kind = image::RunnableImage::Kind;

// Source: ch-run(1), exit status.
constexpr int kExitOwn = 31;
constexpr int kExitNotStarted = 49;
constexpr int kSilence = 3;  ///< as many -q silence errors, too

/// Our failures in ch-run's numbers. Those of the command line itself are 64 already.
int ch_status(int status) {
    switch (status) {
        case kExitOwnFailure:
            return kExitOwn;
        case kExitNotExecutable:
        case kExitNotFound:
            return kExitNotStarted;
        default:
            return status;
    }
}

void check_mount_point(const std::string& directory, const image::RunnableImage& image) {
    if (image.kind != Kind::squashfs) {
        log::warning("--mount has no effect: the image is no squashfs file");
        return;
    }
    const auto status = sys::stat_if_exists(AT_FDCWD, directory);
    if (!status || !S_ISDIR(status->st_mode))
        throw Error(ErrorKind::not_found,
                    fmt::format("{} is not a directory", slipway::quoted(directory)))
            .note("requested by: --mount")
            .hint("leave --mount out: the image needs no mount point on the host");
}

/// The host's temporary directory is /tmp inside; an explicit bind comes later and counts more.
void show_temporary_directory(runtime::RunOptions& run) {
    const char* directory = std::getenv("TMPDIR");
    if (directory == nullptr || run.private_tmp || lexically_normal(directory) == "/tmp") return;
    run.binds.insert(run.binds.begin(), {std::string(directory) + ":/tmp", "$TMPDIR"});
}

/// With -q the command's own output goes nowhere, with -qqq its errors do, too.
void hush(const ChRequest& request) {
    if (request.quiet == 0) return;
    const UniqueFd nowhere = sys::open("/dev/null", O_WRONLY);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
        if (request.quiet >= (stream == STDOUT_FILENO ? 1 : kSilence) &&
            ::dup2(nowhere.get(), stream) < 0)
            throw SysError("cannot silence the command", "dup2");
}

int start(ChRequest& request) {
    runtime::RunOptions& run = request.run;
    run.image = find_ch_image(request);
    const auto image = image::make_runnable(image::parse_image_ref(run.image), run.store);
    if (request.cdi) take_cdi(request);
    if (request.mount) check_mount_point(*request.mount, image);
    if (image.kind == Kind::squashfs) run.write = false;  // silently, as ch-run
    run.command = ch_command(request, image);
    const auto environment = ch_environment(request, image);
    const bool on_host = image.kind == Kind::host;
    if (run.directory && !run.directory->starts_with('/'))
        run.directory = on_host ? absolute_path(*run.directory) : "/" + *run.directory;
    hush(request);
    if (request.join_pid != 0)
        runtime::run_in_process(request.join_pid,
                                {run.command, environment, run.directory.value_or("/")});
    if (!on_host) {
        show_temporary_directory(run);
        if (!run.directory) run.directory = "/";
    }
    run.exact_env = environment;
    run.export_directory = true;
    run.replace_entrypoint = true;
    run.ignore_image_user = true;
    return runtime::run(run);
}

}  // namespace

int ch_run(const std::vector<std::string>& words) {
    log::set_program("ch-run");
    ChRequest request;
    try {
        take_ch_request(words, request);
        if (request.exit_status) return *request.exit_status;
        set_verbosity(request.verbose, request.quiet);
        return start(request);
    } catch (const Error& error) {
        log::repeat_warnings();
        if (request.quiet < kSilence) print_error(error);
        if (request.abort_on_failure) std::abort();
        return ch_status(error.exit_status());
    }
}

}  // namespace slipway::cli
