// Brings what a catalogue's entry describes, checks it, and packs it.
// Must not: pack a byte that was not checked.
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <memory>

#include "dataset_write.hpp"
#include "http_download.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"
#include "slipway/base/sys.hpp"

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

/// A file that was brought, or lies on this machine.
struct Fetched {
    UniqueFd fd;
    std::string partial;  ///< its name in the store, to be removed when all is packed
    std::unique_ptr<FileLock> lock;
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
    Fetched take_local(const CatalogueFile& file, const std::string& url) const {
        const std::string path = url.substr(kFileScheme.size());
        Fetched fetched{sys::open(path, O_RDONLY), {}, {}};
        const std::string problem = difference(fetched.fd.get(), path, file);
        if (!problem.empty()) throw not_as_said(url, problem, entry_.origin);
        return fetched;
    }

    Fetched take_http(const CatalogueFile& file, const std::string& url) {
        const std::string id = "fetch-" + (file.sha256.empty() ? file.md5 : file.sha256);
        Fetched fetched;
        fetched.lock = std::make_unique<FileLock>(join_path(store_.subdirectory("locks"), id),
                                                  FileLock::Mode::exclusive, kLockTimeout);
        fetched.partial = join_path(store_.subdirectory("partial"), id);
        fetched.fd = sys::open(fetched.partial, O_RDWR | O_CREAT, 0600);
        const int fd = fetched.fd.get();
        const bool continued = sys::fstat(fd, fetched.partial).st_size > 0;
        if (continued && difference(fd, fetched.partial, file).empty()) return fetched;
        download(client_, url, fd, fetched.partial, file.size_bytes, progress_);
        std::string problem = difference(fd, fetched.partial, file);
        if (!problem.empty() && continued) {  // the part that lay here may have been wrong
            log::verbose("the kept part of {} was wrong", url);
            sys::ftruncate(fd, 0, fetched.partial);
            download(client_, url, fd, fetched.partial, file.size_bytes, progress_);
            problem = difference(fd, fetched.partial, file);
        }
        if (problem.empty()) return fetched;
        ::unlink(fetched.partial.c_str());
        throw not_as_said(url, problem, entry_.origin);
    }

    const CatalogueEntry& entry_;
    const Store& store_;
    HttpClient client_;
    Progress progress_;
};

}  // namespace

DatasetReport fetch_dataset(const CatalogueEntry& entry, const std::string& output,
                            const Store& store, const SquashfsOptions& options) {
    std::vector<Fetched> fetched;
    {
        Fetcher fetcher(entry, store);
        for (const auto& file : entry.files) fetched.push_back(fetcher.fetch(file));
        fetcher.finish();
    }
    const auto open_parts = [&] {
        DatasetSource::Parts parts;
        for (size_t i = 0; i < fetched.size(); ++i) {
            UniqueFd fd = sys::open(fmt::format("/proc/self/fd/{}", fetched[i].fd.get()), O_RDONLY);
            parts.push_back(open_download(std::move(fd), entry.files[i],
                                          slipway::quoted(entry.files[i].urls[0])));
        }
        return parts;
    };
    const DatasetReport report = write_dataset(open_parts, entry.about, output, options);
    for (const auto& file : fetched)
        if (!file.partial.empty()) ::unlink(file.partial.c_str());
    return report;
}

}  // namespace slipway::image
