// Users and groups by the image's own files; modes of --chmod.
// Must not: ask the host who somebody is.
#include "users.hpp"

#include <fmt/format.h>

#include <optional>

#include "slipway/base/error.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

std::optional<uint32_t> number_of(const std::string& text) {
    if (text.empty() || text.size() > 10 ||
        text.find_first_not_of("0123456789") != std::string::npos)
        return std::nullopt;
    const unsigned long long value = std::stoull(text);
    if (value >= 0xFFFFFFFFull) return std::nullopt;
    return static_cast<uint32_t>(value);
}

/// The fields of the first line whose field `column` is `value`.
std::vector<std::string> find_line(const std::string& text, size_t column,
                                   const std::string& value) {
    for (const std::string& line : split(text, '\n')) {
        auto fields = split(line, ':');
        if (fields.size() > 2 && fields.size() > column && fields[column] == value) return fields;
    }
    return {};
}

uint32_t group_number(const ImageTree& tree, const std::string& group) {
    if (const auto number = number_of(group)) return *number;
    const auto fields = find_line(tree.read("etc/group"), 0, group);
    const auto number = fields.empty() ? std::nullopt : number_of(fields[2]);
    if (!number)
        throw Error(ErrorKind::not_found,
                    fmt::format("the image has no group {}", slipway::quoted(group)))
            .hint("make it in a RUN before (groupadd), or give a number");
    return *number;
}

}  // namespace

Account find_account(const ImageTree& tree, const std::string& user) {
    const size_t colon = user.find(':');
    const std::string name = user.substr(0, colon);
    Account account;
    const auto number = number_of(name.empty() ? "0" : name);
    const std::string passwd = tree.read("etc/passwd");
    const auto fields =
        number ? find_line(passwd, 2, std::to_string(*number)) : find_line(passwd, 0, name);
    if (fields.empty() && !number)
        throw Error(ErrorKind::not_found,
                    fmt::format("the image has no user {}", slipway::quoted(name)))
            .hint("make it in a RUN before (useradd), or give a number");
    account.owner.uid = number ? *number : number_of(fields[2]).value_or(0);
    if (fields.size() > 3) account.owner.gid = number_of(fields[3]).value_or(0);
    if (fields.size() > 5 && !fields[5].empty()) account.home = fields[5];
    if (fields.empty() && account.owner.uid == 0) account.home = "/root";
    if (colon != std::string::npos) account.owner.gid = group_number(tree, user.substr(colon + 1));
    return account;
}

Owner parse_chown(const ImageTree& tree, const std::string& chown) {
    if (chown.empty()) return {};
    const size_t colon = chown.find(':');
    Owner owner;
    owner.uid = find_account(tree, chown.substr(0, colon)).owner.uid;
    owner.gid = colon == std::string::npos || colon + 1 == chown.size()
                    ? owner.uid
                    : group_number(tree, chown.substr(colon + 1));
    return owner;
}

namespace {

[[noreturn]] void bad_mode(const std::string& chmod) {
    throw Error(ErrorKind::invalid_recipe,
                fmt::format("--chmod={} is no mode; write 0755 or u+x,go-w", chmod));
}

/// One clause: [ugoa...][+-=][rwxXst...], several operators one after another.
uint32_t apply_clause(const std::string& chmod, const std::string& clause, uint32_t mode,
                      bool is_directory) {
    size_t at = 0;
    uint32_t who = 0;
    for (; at < clause.size() && std::string("ugoa").find(clause[at]) != std::string::npos; ++at)
        who |= clause[at] == 'u'   ? 04700
               : clause[at] == 'g' ? 02070
               : clause[at] == 'o' ? 01007
                                   : 07777;
    if (who == 0) who = 07777;
    if (at == clause.size()) bad_mode(chmod);
    while (at < clause.size()) {
        const char operation = clause[at++];
        if (operation != '+' && operation != '-' && operation != '=') bad_mode(chmod);
        uint32_t bits = 0;
        for (; at < clause.size() && std::string("+-=").find(clause[at]) == std::string::npos; ++at)
            switch (clause[at]) {
                case 'r':
                    bits |= 0444;
                    break;
                case 'w':
                    bits |= 0222;
                    break;
                case 'x':
                    bits |= 0111;
                    break;
                case 'X':
                    bits |= is_directory || (mode & 0111) ? 0111 : 0;
                    break;
                case 's':
                    bits |= 06000;
                    break;
                case 't':
                    bits |= 01000;
                    break;
                default:
                    bad_mode(chmod);
            }
        bits &= who;
        if (operation == '+') mode |= bits;
        if (operation == '-') mode &= ~bits;
        if (operation == '=') mode = (mode & ~(who & 06777)) | bits;
    }
    return mode;
}

}  // namespace

uint32_t apply_chmod(const std::string& chmod, uint32_t mode, bool is_directory) {
    if (chmod.empty()) return mode;
    if (chmod.find_first_not_of("01234567") == std::string::npos) {
        if (chmod.size() > 5) bad_mode(chmod);
        const unsigned long value = std::stoul(chmod, nullptr, 8);
        if (value > 07777) bad_mode(chmod);
        return static_cast<uint32_t>(value);
    }
    for (const std::string& clause : split(chmod, ','))
        mode = apply_clause(chmod, clause, mode, is_directory);
    return mode;
}

}  // namespace slipway::builder
