// The ch-run front: Charliecloud's command line over Slipway's runtime.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ch_run_options.hpp"
#include "slipway/image/convert.hpp"
#include "slipway/runtime/ch_environment.hpp"
#include "slipway/runtime/run.hpp"

namespace slipway::cli {

/// --set-env, --set-env0, --unset-env and --cdi, as typed.
struct ChEnvOption {
    ChOption option;
    std::optional<std::string> value;
    std::string origin;
};

/// A command line of ch-run, taken in.
struct ChRequest {
    runtime::RunOptions run;  ///< image, binds, directory and modes
    std::vector<ChEnvOption> env;
    bool expand_env = true;
    bool home = false;
    bool join = false;
    int join_pid = 0;  ///< 0: none
    std::optional<std::string> join_tag;
    std::optional<std::string> mount;
    std::optional<std::string> storage;
    std::optional<std::string> cdi_dirs;
    bool cdi = false;
    int verbose = 0;
    int quiet = 0;
    bool abort_on_failure = false;
    std::optional<int> exit_status;    ///< an option asked for this end, and was answered
    std::vector<std::string> command;  ///< what stands after the image
};
/// Read the command line into `request`, which holds what was read when this throws. Throws:
/// Error(usage).
void take_ch_request(const std::vector<std::string>& words, ChRequest& request);
/// Put what CDI specifications say in the place of each --cdi: variables, binds, libraries. Throws:
/// Error(usage), Error(not_found), Error(conflict), SysError.
void take_cdi(ChRequest& request);

/// Whole numbers as ch-run reads them: strtol(3), nothing after it, in the range of int. Throws:
/// Error(usage) naming `option`.
int parse_ch_number(const std::string& text, const std::string& option);

/// The image that was named: one of ch-image's storage directory, else as `slipway run` takes it.
/// Throws: Error(usage) for --write to a stored one.
std::string find_ch_image(const ChRequest& request);
/// The command: as typed, or the image's where none or "-" stands there. Throws: Error(usage).
std::vector<std::string> ch_command(const ChRequest& request, const image::RunnableImage& image);
/// The environment inside. Throws: Error(usage), Error(not_found), SysError.
std::vector<std::string> ch_environment(const ChRequest& request,
                                        const image::RunnableImage& image);
/// The caller's name, for /home/NAME.
std::string ch_user_name();

/// ch-run from its arguments to its exit status, errors told.
int ch_run(const std::vector<std::string>& words);

}  // namespace slipway::cli
