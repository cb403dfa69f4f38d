// Reads ch-run's command line by one table.
// Must not: know what an option does.
#include "ch_run_options.hpp"

#include <fmt/core.h>

#include <string_view>

#include "slipway/base/error.hpp"

namespace slipway::cli {
namespace {

using Option = ChOption;
using Shown = ChOptionRow::Shown;
using Takes = ChOptionRow::Takes;

constexpr int kExitUsage = 64;  // EX_USAGE of sysexits.h, which argp uses

Error usage(const std::string& text) {
    return Error(ErrorKind::usage, text).hint("ch-run --help").exit_status(kExitUsage);
}

const ChOptionRow& find_long(const std::string& name) {
    std::vector<const ChOptionRow*> matches;
    for (const auto& row : ch_options()) {
        if (row.name == name) return row;
        if (row.shown != Shown::when_typed_whole && std::string_view(row.name).starts_with(name))
            matches.push_back(&row);
    }
    if (matches.empty()) throw usage("unknown option " + slipway::quoted("--" + name));
    if (matches.size() == 1) return *matches.front();
    std::string list;
    for (const auto* row : matches) list += fmt::format(" --{}", row->name);
    throw usage(fmt::format("{} may mean{}", slipway::quoted("--" + name), list));
}

const ChOptionRow& find_letter(char letter) {
    for (const auto& row : ch_options())
        if (row.letter == letter && letter != 0) return row;
    throw usage("unknown option " + slipway::quoted(std::string("-") + letter));
}

/// One command line being read.
class Reader {
 public:
    Reader(const std::vector<std::string>& words, const ChOptionTaker& take)
        : words_(words), take_(take) {}

    std::vector<std::string> read(bool in_order) {
        while (next_ < words_.size()) {
            const std::string& word = words_[next_++];
            if (word == "--") break;
            if (word.starts_with("--")) {
                if (!read_long(word.substr(2))) return others_;
            } else if (word.size() > 1 && word[0] == '-') {
                if (!read_letters(word)) return others_;
            } else {
                others_.push_back(word);
                if (in_order) break;
            }
        }
        others_.insert(others_.end(), words_.begin() + static_cast<std::ptrdiff_t>(next_),
                       words_.end());
        return others_;
    }

 private:
    std::string next_word(const std::string& option) {
        if (next_ == words_.size()) throw usage(slipway::quoted(option) + " needs a value");
        return words_[next_++];
    }

    bool read_long(const std::string& word) {
        const size_t equals = word.find('=');
        const ChOptionRow& row = find_long(word.substr(0, equals));
        std::optional<std::string> value;
        if (equals != std::string::npos) value = word.substr(equals + 1);
        if (value && row.takes == Takes::nothing)
            throw usage(
                fmt::format("{} takes no value", slipway::quoted(fmt::format("--{}", row.name))));
        if (!value && row.takes == Takes::value) value = next_word("--" + std::string(row.name));
        return take_(row, value);
    }

    bool read_letters(const std::string& word) {
        for (size_t i = 1; i < word.size(); ++i) {
            const ChOptionRow& row = find_letter(word[i]);
            if (row.takes == Takes::nothing) {
                if (!take_(row, std::nullopt)) return false;
                continue;
            }
            std::optional<std::string> value;
            if (i + 1 < word.size())
                value = word.substr(i + 1);
            else if (row.takes == Takes::value)
                value = next_word(std::string("-") + row.letter);
            return take_(row, value);
        }
        return true;
    }

    const std::vector<std::string>& words_;
    const ChOptionTaker& take_;
    size_t next_ = 0;
    std::vector<std::string> others_;
};

}  // namespace

const std::vector<ChOptionRow>& ch_options() {
    constexpr auto kNothing = Takes::nothing;
    constexpr auto kValue = Takes::value;
    constexpr auto kOptional = Takes::optional_value;
    static const std::vector<ChOptionRow> rows = {
        {Option::abort_fatal, "abort-fatal", 0, kNothing, "", "end with SIGABRT on our failures"},
        {Option::bind, "bind", 'b', kValue, "SRC[:DST]",
         "show SRC of the host at DST (default: at SRC)"},
        {Option::cdi_dirs, "cdi-dirs", 0, kValue, "DIRS", "where CDI specifications lie"},
        {Option::color, "color", 0, kOptional, "WHEN", "colour of messages; they have none"},
        {Option::cd, "cd", 'c', kValue, "DIR", "initial directory inside"},
        {Option::cdi, "cdi", 'd', kOptional, "KIND", "inject devices as CDI describes them"},
        {Option::env_no_expand, "env-no-expand", 0, kNothing, "",
         "take $ in what --set-env sets as it is"},
        {Option::feature, "feature", 0, kValue, "FEAT", "succeed if FEAT is there, and do nothing"},
        {Option::fuse_single, "fuse-single", 0, kNothing, "", "accepted without effect"},
        {Option::gid, "gid", 'g', kValue, "GID", "group id inside"},
        {Option::home, "home", 0, kNothing, "", "show $HOME at /home/$USER"},
        {Option::join_ct, "join-ct", 0, kValue, "N", "number of peers (implies --join)"},
        {Option::join_pid, "join-pid", 0, kValue, "PID", "enter the container of a process"},
        {Option::join_tag, "join-tag", 0, kValue, "TAG", "name of the peers (implies --join)"},
        {Option::join, "join", 'j', kNothing, "", "share one container with the peers"},
        {Option::mount, "mount", 'm', kValue, "DIR", "must be a directory; else without effect"},
        {Option::no_home, "no-home", 0, kNothing, "", "", Shown::when_typed_whole},
        {Option::no_passwd, "no-passwd", 0, kNothing, "",
         "leave the image's passwd and group as they are"},
        {Option::program_name, "program-name", 0, kValue, "NAME", "", Shown::never},
        {Option::quiet, "quiet", 'q', kNothing, "", "say less (up to three times)"},
        {Option::seccomp, "seccomp", 0, kNothing, "",
         "let privileged system calls succeed without effect"},
        {Option::set_env, "set-env", 0, kOptional, "ARG",
         "VAR=VALUE, a FILE of lines, or the image's (no ARG)"},
        {Option::set_env0, "set-env0", 0, kOptional, "ARG",
         "the same with zero bytes between assignments"},
        {Option::storage, "storage", 's', kValue, "DIR", "storage directory of ch-image"},
        {Option::test, "test", 0, kValue, "TEST", "has no tests"},
        {Option::private_tmp, "private-tmp", 't', kNothing, "", "a /tmp of its own, in memory"},
        {Option::unsafe, "unsafe", 0, kNothing, "", "accepted without effect"},
        {Option::unset_env, "unset-env", 0, kValue, "GLOB", "take out the variables that match"},
        {Option::uid, "uid", 'u', kValue, "UID", "user id inside"},
        {Option::verbose, "verbose", 'v', kNothing, "", "say more (up to three times)"},
        {Option::warnings, "warnings", 0, kValue, "NUM", "print NUM warnings, and do nothing"},
        {Option::write, "write", 'w', kNothing, "", "let the command change a directory image"},
        {Option::write_fake, "write-fake", 'W', kOptional, "SIZE",
         "take changes of the image in memory (default: 12%)"},
        {Option::help, "help", '?', kNothing, "", "print this"},
        {Option::usage, "usage", 0, kNothing, "", "print the options in brief"},
        {Option::version, "version", 'V', kNothing, "", "print the version"},
    };
    return rows;
}

std::vector<std::string> read_ch_options(const std::vector<std::string>& words, bool in_order,
                                         const ChOptionTaker& take) {
    return Reader(words, take).read(in_order);
}

}  // namespace slipway::cli
