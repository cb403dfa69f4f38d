// Brings what a catalogue's entry describes, checks it, and packs it.
// Must not: pack a byte that was not checked.
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <tuple>

#include "../registry/http_download.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"
#include "write.hpp"

namespace slipway::image {
namespace {

constexpr auto kLockTimeout = std::chrono::minutes(30);
constexpr std::string_view kFileScheme = "file://";

struct FreeDigest {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

/// A sum of a file's contents by an algorithm of OpenSSL's, in hexadecimal.
std::string sum_of(int fd, const std::string& path, const EVP_MD* algorithm) {
    const std::unique_ptr<EVP_MD_CTX, FreeDigest> context(EVP_MD_CTX_new());
    if (!context || EVP_DigestInit_ex(context.get(), algorithm, nullptr) != 1)
        throw Error(ErrorKind::unsupported, "OpenSSL refuses this checksum on this machine")
            .hint(
                "give the files' sha256 in the catalogue entry: md5 is forbidden where FIPS is "
                "enforced");
    std::vector<char> buffer(1 << 20);
    uint64_t at = 0;
    while (const size_t n = sys::pread(fd, buffer.data(), buffer.size(), at, path)) {
        EVP_DigestUpdate(context.get(), buffer.data(), n);
        at += n;
    }
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_DigestFinal_ex(context.get(), bytes, &size);
    std::string hex;
    for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", bytes[i]);
    return hex;
}

/// "" or what of a file is not as the entry says.
std::string difference(int fd, const std::string& path, const CatalogueFile& wanted) {
    const auto size = static_cast<uint64_t>(sys::fstat(fd, path).st_size);
    if (wanted.size_bytes && size != *wanted.size_bytes)
        return fmt::format("it has {} bytes instead of {}", size, *wanted.size_bytes);
    const auto compare = [&](const std::string& expected, const EVP_MD* algorithm,
                             const char* name) -> std::string {
        if (expected.empty()) return "";
        const std::string found = sum_of(fd, path, algorithm);
        if (found == expected) return "";
        return fmt::format("its {} is {} instead of {}", name, found, expected);
    };
    const std::string problem = compare(wanted.sha256, EVP_sha256(), "sha256");
    return problem.empty() ? compare(wanted.md5, EVP_md5(), "md5") : problem;
}

Error not_as_said(const std::string& url, const std::string& problem, const std::string& origin) {
    return Error(ErrorKind::invalid_data,
                 fmt::format("{} is not what {} says: {}", slipway::quoted(url),
                             slipway::quoted(origin), problem))
        .hint(
            "if the publisher has changed the file, have the catalogue entry corrected; do not "
            "use what nobody has checked");
}

/// A file that was brought, or lies on this machine, and was checked. Descriptor and lock are let
/// go while others are brought: an entry may have more files than a process may open.
struct Fetched {
    std::string path;
    std::string lock_path;  ///< "": it is not the store's
    struct stat seen {};    ///< before it was checked: by this it is known again
    UniqueFd fd;
    std::unique_ptr<FileLock> lock;

    void let_go() {
        fd.reset();
        lock.reset();
    }
    /// Still what was checked: whatever writes to a file changes its ctime.
    bool is(const struct stat& now) const {
        const auto same = [](const timespec& a, const timespec& b) {
            return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
        };
        return now.st_dev == seen.st_dev && now.st_ino == seen.st_ino &&
               now.st_size == seen.st_size && same(now.st_mtim, seen.st_mtim) &&
               same(now.st_ctim, seen.st_ctim);
    }
};

class Fetcher {
 public:
    Fetcher(const CatalogueEntry& entry, const Store& store)
        : entry_(entry),
          store_(store),
          progress_("fetching " + entry.about.name, 0, Progress::Unit::bytes) {
        uint64_t total = 0;
        bool known = true;
        for (const auto& file : entry.files) {
            total += file.size_bytes.value_or(0);
            known = known && file.size_bytes;
        }
        if (known) progress_.set_total(total);
    }

    Fetched fetch(const CatalogueFile& file) {
        Error failed(ErrorKind::internal, "no URL");
        std::vector<std::string> notes;
        for (const auto& url : file.urls) {
            try {
                return url.starts_with(kFileScheme) ? take_local(file, url) : take_http(file, url);
            } catch (const Error& error) {
                if (&url == &file.urls.back() && notes.empty()) throw;
                notes.push_back(error.message());
                failed = error;
            }
        }
        for (size_t i = 0; i + 1 < notes.size(); ++i) failed.note("before: " + notes[i]);
        throw failed;
    }
    void finish() { progress_.finish(); }

 private:
    static std::string check(Fetched& fetched, const CatalogueFile& file) {
        fetched.seen = sys::fstat(fetched.fd.get(), fetched.path);
        return difference(fetched.fd.get(), fetched.path, file);
    }

    Fetched take_local(const CatalogueFile& file, const std::string& url) const {
        Fetched fetched;
        fetched.path = url.substr(kFileScheme.size());
        fetched.fd = sys::open(fetched.path, O_RDONLY);
        const std::string problem = check(fetched, file);
        if (!problem.empty()) throw not_as_said(url, problem, entry_.origin);
        return fetched;
    }

    Fetched take_http(const CatalogueFile& file, const std::string& url) {
        store_.begin_use();
        const std::string id = "fetch-" + (file.sha256.empty() ? file.md5 : file.sha256);
        Fetched fetched;
        fetched.lock_path = join_path(store_.subdirectory("locks"), id);
        fetched.lock =
            std::make_unique<FileLock>(fetched.lock_path, FileLock::Mode::exclusive, kLockTimeout);
        fetched.path = join_path(store_.subdirectory("partial"), id);
        fetched.fd = sys::open(fetched.path, O_RDWR | O_CREAT, 0600);
        const int fd = fetched.fd.get();
        const bool continued = sys::fstat(fd, fetched.path).st_size > 0;
        if (continued && check(fetched, file).empty()) return fetched;
        download(client_, url, fd, fetched.path, file.size_bytes, progress_);
        std::string problem = check(fetched, file);
        if (!problem.empty() && continued) {  // the part that lay here may have been wrong
            log::verbose("the kept part of {} was wrong", url);
            sys::ftruncate(fd, 0, fetched.path);
            download(client_, url, fd, fetched.path, file.size_bytes, progress_);
            problem = check(fetched, file);
        }
        if (problem.empty()) return fetched;
        ::unlink(fetched.path.c_str());
        throw not_as_said(url, problem, entry_.origin);
    }

    const CatalogueEntry& entry_;
    const Store& store_;
    HttpClient client_;
    Progress progress_;
};

/// All files of an entry; of those with the same sums one.
class Brought {
 public:
    Brought(const CatalogueEntry& entry, const Store& store) : entry_(entry), store_(store) {
        Fetcher fetcher(entry, store);
        for (const auto& file : entry.files) {
            const auto [at, is_new] = files_.try_emplace(key(file));
            if (!is_new) continue;
            at->second = fetcher.fetch(file);
            at->second.let_go();
        }
        fetcher.finish();
    }

    /// Open a file, and nobody changes it meanwhile. Without the lock another process may have
    /// packed and removed it, or somebody may have written to it: then it is fetched again.
    Fetched open(const CatalogueFile& file) {
        Fetched& known = files_.at(key(file));
        Fetched opened;
        if (!known.lock_path.empty())
            opened.lock =
                std::make_unique<FileLock>(known.lock_path, FileLock::Mode::shared, kLockTimeout);
        if (const auto now = sys::stat_if_exists(AT_FDCWD, known.path); now && known.is(*now)) {
            opened.fd = sys::open(known.path, O_RDONLY);
            if (known.is(sys::fstat(opened.fd.get(), known.path))) return opened;
        }
        opened.let_go();
        log::verbose("{} has changed since it was checked", slipway::quoted(known.path));
        CatalogueEntry one = entry_;
        one.files = {file};
        Fetcher fetcher(one, store_);
        opened = fetcher.fetch(file);
        fetcher.finish();
        known.path = opened.path;
        known.lock_path = opened.lock_path;
        known.seen = opened.seen;
        return opened;
    }

    /// Take what was packed out of the store, but not what another process brings there now.
    void remove() const {
        for (const auto& [sums, file] : files_) {
            if (file.lock_path.empty()) continue;
            const auto now = sys::stat_if_exists(AT_FDCWD, file.path);
            if (now && now->st_ino == file.seen.st_ino) ::unlink(file.path.c_str());
        }
    }

 private:
    using Key = std::tuple<std::string, std::string, std::optional<uint64_t>>;
    static Key key(const CatalogueFile& file) { return {file.sha256, file.md5, file.size_bytes}; }

    const CatalogueEntry& entry_;
    const Store& store_;
    std::map<Key, Fetched> files_;
};

/// A part of the pack, opened when its turn comes.
class LaterPart : public EntrySource {
 public:
    LaterPart(Brought& brought, const CatalogueFile& file) : brought_(brought), file_(file) {}
    bool next(Entry& entry) override {
        if (!part_) {
            fetched_ = brought_.open(file_);
            part_ = open_download(std::move(fetched_.fd), file_, slipway::quoted(file_.urls[0]));
        }
        return part_->next(entry);
    }
    size_t read(void* data, size_t size_bytes) override { return part_->read(data, size_bytes); }

 private:
    Brought& brought_;
    const CatalogueFile& file_;
    Fetched fetched_;  ///< keeps the lock
    std::unique_ptr<EntrySource> part_;
};

}  // namespace

DatasetReport fetch_dataset(const CatalogueEntry& entry, const std::string& output,
                            const Store& store, const SquashfsOptions& options) {
    Brought brought(entry, store);
    const auto open_parts = [&] {
        DatasetSource::Parts parts;
        for (const auto& file : entry.files)
            parts.push_back(std::make_unique<LaterPart>(brought, file));
        return parts;
    };
    const DatasetReport report = write_dataset(open_parts, entry.about, output, options);
    brought.remove();
    return report;
}

}  // namespace slipway::image
