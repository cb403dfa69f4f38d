// Signing a squashfs file, and checking a signed one.
// Must not: change the file in place: it may be running.
#include <fmt/format.h>
#include <stdlib.h>

#include <cstring>

#include "../squashfs/output_file.hpp"
#include "seal.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/signature.hpp"
#include "slipway/image/squashfs.hpp"

namespace slipway::image {
namespace {

Error unsigned_file(const std::string& subject) {
    return Error(ErrorKind::invalid_image,
                 fmt::format("{} is not signed", slipway::quoted(subject)))
        .hint(fmt::format("sign it: slipway sign {} --key KEY.pem", subject));
}

Error changed(const std::string& subject, const std::string& detail) {
    return Error(ErrorKind::invalid_image, fmt::format("{} was changed after it was signed: {}",
                                                       slipway::quoted(subject), detail))
        .hint("copy or build the image again");
}

/// Links followed: the file is replaced, not a link to it.
std::string real_path(const std::string& path) {
    char* real = ::realpath(path.c_str(), nullptr);
    if (real == nullptr)
        throw SysError(fmt::format("cannot open {}", slipway::quoted(path)), "realpath");
    std::string text = real;
    std::free(real);
    return text;
}

/// Where the contents differ from the tree that lies in the file.
void compare(int fd, const std::string& subject, const Seal& seal) {
    const HashTree tree = make_hash_tree(fd, subject, seal.content_bytes);
    std::string stored(tree.bytes.size(), '\0');
    for (size_t got = 0; got < stored.size();) {
        const size_t n = sys::pread(fd, stored.data() + got, stored.size() - got,
                                    seal.tree_offset_bytes() + got, subject);
        if (n == 0) throw changed(subject, "its hash tree is cut off");
        got += n;
    }
    if (tree.root == seal.root) {
        if (std::memcmp(stored.data(), tree.bytes.data(), stored.size()) != 0)
            throw changed(subject, "its hash tree differs, its contents do not");
        return;
    }
    for (uint64_t i = 0; i < tree.shape.chunks; ++i) {
        const size_t at = i * kHashBytes;
        if (std::memcmp(stored.data() + at, tree.bytes.data() + at, kHashBytes) != 0)
            throw changed(
                subject, fmt::format("something between byte {} and {} differs",
                                     i * kHashChunkBytes, (i + 1) * uint64_t{kHashChunkBytes} - 1));
    }
    throw changed(subject, "its contents are not what was signed");
}

SignatureReport judge(const Seal& seal, const std::string& subject, const TrustedKeys& trusted) {
    SignatureReport report;
    report.digest = seal.digest();
    report.content_bytes = seal.content_bytes;
    const std::string message = seal.message();
    for (const auto& signature : seal.signatures) {
        std::string why;
        if (const auto signer = trusted.signer_of(signature, message, why))
            report.signers.push_back(*signer);
        else
            report.others.push_back(why);
    }
    if (!report.signers.empty()) return report;
    Error error(ErrorKind::invalid_image, fmt::format("{} is signed by nobody who is trusted here",
                                                      slipway::quoted(subject)));
    for (const auto& why : report.others) error.note("signed with " + why);
    throw error.hint(
        "name the signer's public key with --key or its authority with --ca, if you "
        "trust them");
}

}  // namespace

SignatureReport sign_squashfs(const std::string& path, const SigningKey& key) {
    const std::string target = real_path(path);
    const SquashfsImage from(sys::open(target, O_RDONLY), path);
    const struct stat status = sys::fstat(from.fd(), target);
    const auto old = read_seal(from.fd(), path);
    const uint64_t content = seal_offset(from.fd(), path);
    squashfs::OutputFile file(target);
    copy_bytes(from.fd(), 0, file.fd(), 0,
               std::min<uint64_t>(content, static_cast<uint64_t>(status.st_size)), path);
    sys::ftruncate(file.fd(), static_cast<off_t>(content), path);
    const HashTree tree = make_hash_tree(file.fd(), path, content);
    Seal seal{content, tree.root, {}};
    if (old && old->digest() != seal.digest())
        throw changed(path, "its signature is not of these contents");
    if (old)
        for (const auto& signature : old->signatures)
            if (signature.key_id != key.id()) seal.signatures.push_back(signature);
    seal.signatures.push_back(key.sign(seal.message()));
    write_seal(file.fd(), path, seal, tree);
    file.commit(status.st_mode & 07777);
    return {seal.digest(), content, {"key " + key.id().text()}, {}};
}

SignatureReport verify_seal(int fd, const std::string& subject, const TrustedKeys& trusted) {
    const auto seal = read_seal(fd, subject);
    if (!seal) throw unsigned_file(subject);
    return judge(*seal, subject, trusted);
}

SignatureReport verify_signed_squashfs(const std::string& path, const TrustedKeys& trusted) {
    const UniqueFd fd = sys::open(path, O_RDONLY);
    const auto seal = read_seal(fd.get(), path);
    if (!seal) throw unsigned_file(path);
    SignatureReport report = judge(*seal, path, trusted);
    compare(fd.get(), path, *seal);
    return report;
}

}  // namespace slipway::image
