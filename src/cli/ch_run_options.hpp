// The options of ch-run, and its command line read as getopt_long reads it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace slipway::cli {

enum class ChOption {
    abort_fatal,
    bind,
    cdi_dirs,
    color,
    cd,
    cdi,
    env_no_expand,
    feature,
    fuse_single,
    gid,
    home,
    join_ct,
    join_pid,
    join_tag,
    join,
    mount,
    no_home,
    no_passwd,
    program_name,
    quiet,
    seccomp,
    set_env,
    set_env0,
    storage,
    test,
    private_tmp,
    unsafe,
    unset_env,
    uid,
    verbose,
    warnings,
    write,
    write_fake,
    help,
    usage,
    version
};

struct ChOptionRow {
    enum class Takes { nothing, value, optional_value };
    enum class Shown { always, never, when_typed_whole };  ///< in --help, and as an abbreviation

    ChOption option;
    const char* name;
    char letter;  ///< 0: none
    Takes takes;
    const char* value;  ///< its name in --help
    const char* help;
    Shown shown = Shown::always;
};
/// Every option, in the order of --help.
const std::vector<ChOptionRow>& ch_options();

/// Called for each option as it is read, in the order typed. False: read no further.
using ChOptionTaker =
    std::function<bool(const ChOptionRow& row, const std::optional<std::string>& value)>;

/// Read a command line as getopt_long(3) does: options before and after other words, "--" ends
/// them, letters may be joined, long names shortened as far as they stay unique, values of
/// optional_value only attached. With `in_order` (POSIXLY_CORRECT) the first other word ends the
/// options. Returns the other words. Throws: Error(usage), status 64.
std::vector<std::string> read_ch_options(const std::vector<std::string>& words, bool in_order,
                                         const ChOptionTaker& take);

/// The texts of --help and --usage.
std::string ch_help();
std::string ch_usage();

}  // namespace slipway::cli
