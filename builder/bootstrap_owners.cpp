// Owners of a bootstrapped system's files, found again where they can be known.
// Must not: change the system.
#include "bootstrap_owners.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <vector>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

/// A member of a package that does not belong to root:root.
struct Member {
    std::string path, user, group;
    uint32_t uid = 0, gid = 0, mode = 0;
};

struct FreeArchive {
    void operator()(archive* reader) const { archive_read_free(reader); }
};
using Archive = std::unique_ptr<archive, FreeArchive>;

la_ssize_t read_member(archive*, void* outer, const void** data) {
    thread_local std::vector<char> buffer(256 << 10);
    *data = buffer.data();
    return archive_read_data(static_cast<archive*>(outer), buffer.data(), buffer.size());
}

/// The tar inside a .deb (an ar archive with control.tar.* and data.tar.*).
std::vector<Member> read_package(const std::string& path) {
    Archive outer(archive_read_new());
    archive_read_support_format_ar(outer.get());
    std::vector<Member> members;
    archive_entry* entry = nullptr;
    if (archive_read_open_filename(outer.get(), path.c_str(), 256 << 10) != ARCHIVE_OK)
        throw Error(ErrorKind::invalid_archive,
                    fmt::format("{} is no package: {}", slipway::quoted(path),
                                archive_error_string(outer.get())));
    while (archive_read_next_header(outer.get(), &entry) == ARCHIVE_OK) {
        if (!starts_with(archive_entry_pathname(entry), "data.tar")) continue;
        Archive inner(archive_read_new());
        archive_read_support_filter_all(inner.get());
        archive_read_support_format_tar(inner.get());
        if (archive_read_open(inner.get(), outer.get(), nullptr, read_member, nullptr) !=
            ARCHIVE_OK)
            throw Error(ErrorKind::invalid_archive,
                        fmt::format("cannot read {}: {}", slipway::quoted(path),
                                    archive_error_string(inner.get())));
        archive_entry* file = nullptr;
        while (archive_read_next_header(inner.get(), &file) >= ARCHIVE_WARN && file != nullptr) {
            const auto text = [](const char* value) { return std::string(value ? value : ""); };
            Member member{clean_member_path(text(archive_entry_pathname(file))),
                          text(archive_entry_uname(file)),
                          text(archive_entry_gname(file)),
                          static_cast<uint32_t>(archive_entry_uid(file)),
                          static_cast<uint32_t>(archive_entry_gid(file)),
                          static_cast<uint32_t>(archive_entry_perm(file)) & 07777u};
            if (member.uid != 0 || member.gid != 0) members.push_back(std::move(member));
            file = nullptr;
        }
        break;
    }
    return members;
}

/// Packages do not change: what was read once is kept beside them.
class PackageOwners {
 public:
    explicit PackageOwners(const std::string& directory)
        : directory_(directory), path_(join_path(directory, "owners.json")) {
        if (sys::stat_if_exists(AT_FDCWD, path_))
            known_ = Json::parse(read_file(path_), nullptr, false);
        if (!known_.is_object()) known_ = Json::object();
    }
    ~PackageOwners() {
        if (!changed_) return;
        try {
            write_file_atomic(path_, to_text(known_));
        } catch (const Error& error) {
            log::verbose("{}", error.message());
        }
    }
    PackageOwners(const PackageOwners&) = delete;
    PackageOwners& operator=(const PackageOwners&) = delete;

    std::vector<Member> of(const std::string& file) {
        std::vector<Member> members;
        if (known_.contains(file)) {
            for (const Json& row : known_[file])
                members.push_back(
                    {row.at(0), row.at(1), row.at(2), row.at(3), row.at(4), row.at(5)});
            return members;
        }
        members = read_package(join_path(directory_, file));
        Json rows = Json::array();
        for (const Member& m : members)
            rows.push_back({m.path, m.user, m.group, m.uid, m.gid, m.mode});
        known_[file] = std::move(rows);
        changed_ = true;
        return members;
    }

 private:
    std::string directory_, path_;
    Json known_;
    bool changed_ = false;
};

/// Names and numbers of the installed system.
class Names {
 public:
    explicit Names(const Root& root) {
        read(root, "etc/passwd", users_);
        read(root, "etc/group", groups_);
    }
    uint32_t user(const std::string& name, uint32_t number) const {
        return find(users_, name, number);
    }
    uint32_t group(const std::string& name, uint32_t number) const {
        return find(groups_, name, number);
    }
    bool has(const std::string& user, const std::string& group) const {
        return users_.count(user) != 0 && groups_.count(group) != 0;
    }

 private:
    using Table = std::map<std::string, uint32_t>;
    static void read(const Root& root, const std::string& path, Table& table) {
        for (const std::string& line : split(root.read_file_if_exists(path).value_or(""), '\n')) {
            const auto fields = split(line, ':');
            if (fields.size() > 2 && !fields[2].empty() &&
                fields[2].find_first_not_of("0123456789") == std::string::npos)
                table[fields[0]] = static_cast<uint32_t>(std::stoul(fields[2]));
        }
    }
    static uint32_t find(const Table& table, const std::string& name, uint32_t number) {
        const auto found = table.find(name);
        return found == table.end() ? number : found->second;
    }
    Table users_, groups_;
};

/// What the base packages of Debian and Ubuntu set in their postinst scripts; applied where the
/// path and the group are there. Sources: base-files, base-passwd, passwd, apt, login, cron.
struct KnownOwner {
    const char *path, *user, *group;
};
constexpr KnownOwner kKnownOwners[] = {
    {"etc/shadow", "root", "shadow"},
    {"etc/gshadow", "root", "shadow"},
    {"etc/shadow-", "root", "shadow"},
    {"etc/gshadow-", "root", "shadow"},
    {"var/mail", "root", "mail"},
    {"var/local", "root", "staff"},
    {"var/log/btmp", "root", "utmp"},
    {"var/log/wtmp", "root", "utmp"},
    {"var/log/lastlog", "root", "utmp"},
    {"var/log/faillog", "root", "utmp"},
    {"run/utmp", "root", "utmp"},
    {"var/log/apt/term.log", "root", "adm"},
    {"var/cache/apt/archives/partial", "_apt", "root"},
    {"var/lib/apt/lists/partial", "_apt", "root"},
    {"var/lib/apt/lists/auxfiles", "_apt", "root"},
    {"etc/chatscripts", "root", "dip"},
    {"etc/ppp/peers", "root", "dip"},
    {"var/spool/cron/crontabs", "root", "crontab"},
};

/// The file of each installed package, as apt names what it downloads.
std::vector<std::string> installed_packages(const Root& root) {
    std::vector<std::string> files;
    std::string name, version, architecture;
    const auto finish = [&] {
        if (name.empty()) return;
        std::string escaped;
        for (const char c : version) escaped += c == ':' ? std::string("%3a") : std::string(1, c);
        files.push_back(fmt::format("{}_{}_{}.deb", name, escaped, architecture));
        name.clear();
    };
    const auto status = root.read_file_if_exists("var/lib/dpkg/status").value_or("");
    for (const std::string& line : split(status, '\n')) {
        if (line.empty())
            finish();
        else if (starts_with(line, "Package: "))
            name = line.substr(9);
        else if (starts_with(line, "Version: "))
            version = line.substr(9);
        else if (starts_with(line, "Architecture: "))
            architecture = line.substr(14);
    }
    finish();
    return files;
}

/// The path below the root that a package's path leads to: /bin may be a link to usr/bin.
std::optional<std::string> real_path(const Root& root, const std::string& path) {
    const auto parent =
        root.open_if_exists(std::string(parent_path("/" + path)), O_PATH | O_DIRECTORY);
    if (!parent) return std::nullopt;
    const std::string top = sys::readlinkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", root.fd()));
    const std::string found =
        sys::readlinkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", parent->get()));
    if (!starts_with(found, top)) return std::nullopt;
    return clean_member_path(join_path(found.substr(top.size()), base_name(path)));
}

/// "root crontab 2755 /usr/bin/crontab"
void apply_overrides(const Root& root, const Names& names,
                     std::map<std::string, RecoveredOwner>& owners) {
    const auto text = root.read_file_if_exists("var/lib/dpkg/statoverride").value_or("");
    for (const std::string& line : split(text, '\n')) {
        const auto fields = split_blanks(line);
        if (fields.size() != 4 || !names.has(fields[0], fields[1])) continue;
        const auto path = real_path(root, clean_member_path(fields[3]));
        if (!path || fields[2].find_first_not_of("01234567") != std::string::npos) continue;
        owners[*path] = {names.user(fields[0], 0), names.group(fields[1], 0),
                         static_cast<uint32_t>(std::stoul(fields[2], nullptr, 8)) & 07777u};
    }
}

}  // namespace

std::map<std::string, RecoveredOwner> recover_owners(const std::string& directory,
                                                     const std::string& packages) {
    const Root root(directory);
    const Names names(root);
    std::map<std::string, RecoveredOwner> owners;
    PackageOwners known(packages);
    for (const std::string& file : installed_packages(root)) {
        if (!sys::stat_if_exists(AT_FDCWD, join_path(packages, file))) {
            log::verbose("the package {} is not in the cache: its files' owners are root", file);
            continue;
        }
        for (const Member& member : known.of(file))
            if (const auto path = real_path(root, member.path))
                owners[*path] = {names.user(member.user, member.uid),
                                 names.group(member.group, member.gid), member.mode};
    }
    for (const KnownOwner& row : kKnownOwners) {
        if (!names.has(row.user, row.group) || !root.stat(row.path, false)) continue;
        owners[row.path] = {names.user(row.user, 0), names.group(row.group, 0), 0};
    }
    apply_overrides(root, names, owners);
    return owners;
}

}  // namespace slipway::builder
