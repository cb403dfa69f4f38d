// Reads ordinary command lines of `slipway run`: CLI11, which knows all others, takes a twentieth of
// a start to prepare itself. Must not: judge. What it doesn't know it leaves to CLI11.
#include "plain_run.hpp"

#include <string_view>

#include "command.hpp"
#include "run_options.hpp"

namespace slipway::cli {
namespace {

/// Finds the option that a word names.
class Finder final : public OptionTable {
 public:
    explicit Finder(std::string_view word) : word_(word) {}

    void values(const char* names, std::vector<std::string>& into, const char*) override {
        if (is_among(names)) values_ = &into;
    }
    void value(const char* names, std::string& into, const char*) override {
        if (is_among(names)) value_ = &into;
    }
    void flag(const char* names, bool& into, const char*) override {
        if (!is_among(names)) return;
        flag_ = &into;
        flag_is_ = names[0] != '!';
    }
    void flag(const char* names, std::string& into, const char*) override {
        if (!is_among(names)) return;
        value_ = &into;
        const std::string_view all = names;
        const size_t from = all.find('{') + 1;
        without_value_ = all.substr(from, all.find('}') - from);
    }

    /// "--bind", whichever of its names was typed; "": there is no such option.
    const std::string& name() const { return name_; }
    bool takes_value() const { return flag_ == nullptr && without_value_.empty(); }
    void give() {
        if (flag_ != nullptr)
            *flag_ = flag_is_;
        else
            *value_ = without_value_;
    }
    void give(std::string_view value) {
        if (values_ != nullptr)
            values_->emplace_back(value);
        else
            *value_ = value;
    }

 private:
    bool is_among(std::string_view names) {
        std::string_view long_name;
        bool found = false;
        while (!names.empty()) {
            std::string_view name = names.substr(0, names.find(','));
            names.remove_prefix(std::min(name.size() + 1, names.size()));
            if (name.starts_with('!')) name.remove_prefix(1);
            name = name.substr(0, name.find('{'));
            if (long_name.empty() && name.starts_with("--")) long_name = name;
            found = found || name == word_;
        }
        if (found) name_ = long_name;
        return found;
    }

    std::string_view word_;
    std::string name_;
    std::vector<std::string>* values_ = nullptr;
    std::string* value_ = nullptr;
    bool* flag_ = nullptr;
    bool flag_is_ = true;
    std::string_view without_value_;
};

/// A value that a parser could take for something else: a list, an option, nothing.
bool is_unusual(std::string_view value) {
    return value.empty() || std::string_view("-[{%\"'`").find(value[0]) != value.npos;
}

/// -v, -q and their long names, before the subcommand. False: something else is there, too.
bool read_verbosity(std::span<char* const>& words) {
    int verbose = 0, quiet = 0;
    for (; !words.empty() && words[0][0] == '-'; words = words.subspan(1)) {
        const std::string_view word = words[0];
        if (word == "-v" || word == "--verbose")
            ++verbose;
        else if (word == "-q" || word == "--quiet")
            ++quiet;
        else
            return false;
    }
    if (verbose != 0 || quiet != 0) set_verbosity(verbose, quiet);
    return true;
}

/// Read one option and its value, and move past them. False: CLI11 shall look at it.
bool read_option(std::span<char* const>& words, RunFlags& flags, TypedRun& typed) {
    const std::string_view word = words[0];
    const size_t equals = word.starts_with("--") ? word.find('=') : word.npos;
    Finder option(word.substr(0, equals));
    declare_run_options(option, flags);
    if (option.name().empty()) return false;
    words = words.subspan(1);
    typed.options.push_back(option.name());
    if (!option.takes_value()) {
        if (equals != word.npos) return false;
        option.give();
        return true;
    }
    std::string_view value;
    if (equals != word.npos) {
        value = word.substr(equals + 1);
    } else if (!words.empty()) {
        value = words[0];
        words = words.subspan(1);
    }
    if (is_unusual(value)) return false;
    option.give(value);
    return true;
}

}  // namespace

std::optional<runtime::RunOptions> read_plain_run(std::span<char* const> words) {
    std::span<char* const> rest = words;
    if (!read_verbosity(rest) || rest.empty() || std::string_view(rest[0]) != "run")
        return std::nullopt;
    rest = rest.subspan(1);
    RunFlags flags;
    TypedRun typed{.subcommand = "slipway run"};
    while (!rest.empty() && rest[0][0] == '-')
        if (!read_option(rest, flags, typed)) return std::nullopt;
    if (rest.empty() || rest[0][0] == '\0' || std::string_view(rest[0]) == "++")
        return std::nullopt;
    typed.words.assign(rest.begin(), rest.end());
    return take_run_options(typed, flags);
}

}  // namespace slipway::cli
