// Hash trees: shapes, and that no changed byte of contents or tree is handed out.
// Must not: use a tree that was not made of the bytes in the test.
#include "../../../src/image/trust/hash_tree.hpp"

#include <cstring>

#include "catch.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/sys.hpp"

using namespace slipway;
using namespace slipway::image;

namespace {

std::string contents(size_t size) {
    std::string bytes(size, '\0');
    uint32_t state = 1;
    for (char& byte : bytes) byte = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    return bytes;
}

/// A file of contents, and its tree 4096 bytes behind them.
struct Sealed {
    UniqueFd fd = sys::memfd_create("sealed");
    uint64_t size;
    HashTree tree;
    explicit Sealed(size_t bytes) : size(bytes) {
        const std::string data = contents(bytes);
        sys::write_all(fd.get(), data.data(), data.size(), "sealed");
        tree = make_hash_tree(fd.get(), "sealed", size);
        sys::pwrite_all(fd.get(), tree.bytes.data(), tree.bytes.size(), size + 4096, "sealed");
    }
    SealedContent content() const { return SealedContent(size, tree.root, size + 4096); }
    void flip(uint64_t at) const {
        char byte = 0;
        sys::pread(fd.get(), &byte, 1, at, "sealed");
        byte = static_cast<char>(byte ^ 4);
        sys::pwrite_all(fd.get(), &byte, 1, at, "sealed");
    }
    bool readable(uint64_t at) const {
        char byte = 0;
        try {
            return content().read(fd.get(), &byte, 1, at, "sealed") == 1;
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::invalid_image);
            return false;
        }
    }
};

}  // namespace

TEST_CASE("a hash tree's shape") {
    const auto levels = [](uint64_t bytes) { return hash_tree_shape(bytes).levels.size(); };
    CHECK(levels(1) == 1);
    CHECK(levels(128 * uint64_t{kHashChunkBytes}) == 1);
    CHECK(levels(128 * uint64_t{kHashChunkBytes} + 1) == 2);
    CHECK(levels(uint64_t{1} << 31) == 2);
    CHECK(levels((uint64_t{1} << 31) + 1) == 3);
    CHECK(hash_tree_shape((uint64_t{1} << 31) + 1).tree_bytes == (129 + 2 + 1) * 4096);
}

TEST_CASE("sealed contents read as they are, across chunks and at the end") {
    const Sealed file(3 * kHashChunkBytes + 1000);
    const std::string data = contents(file.size);
    const SealedContent content = file.content();
    for (const auto& [at, want] : {std::pair<uint64_t, size_t>{0, 10},
                                   {kHashChunkBytes - 5, 10},
                                   {100, 2 * kHashChunkBytes},
                                   {file.size - 3, 100},
                                   {file.size, 5},
                                   {file.size + 99999, 5}}) {
        std::string bytes(want, '?');
        const size_t got = content.read(file.fd.get(), bytes.data(), want, at, "sealed");
        CHECK(got == (at >= data.size() ? 0 : std::min(want, data.size() - at)));
        if (got > 0) CHECK(bytes.compare(0, got, data, at, got) == 0);
    }
}

TEST_CASE("a changed byte spoils its own chunk only, a changed node all below it") {
    const Sealed file(140 * kHashChunkBytes);
    REQUIRE(file.tree.shape.levels.size() == 2);
    const uint64_t chunk_7 = 7 * kHashChunkBytes, chunk_135 = 135 * kHashChunkBytes;
    file.flip(chunk_7 + 99);
    CHECK_FALSE(file.readable(chunk_7));
    CHECK(file.readable(chunk_7 - 1));
    CHECK(file.readable(chunk_135));
    file.flip(chunk_7 + 99);
    const uint64_t tree = file.size + 4096;
    file.flip(tree + 3);  // the first node of level 0
    CHECK_FALSE(file.readable(chunk_7));
    CHECK(file.readable(chunk_135));
    file.flip(tree + 3);
    file.flip(tree + 2 * 4096 + 40);  // the upper node
    CHECK_FALSE(file.readable(chunk_7));
    CHECK_FALSE(file.readable(chunk_135));
    file.flip(tree + 2 * 4096 + 40);
    CHECK(file.readable(chunk_7));
}

TEST_CASE("a file that was cut since it was sealed is damage, no short read") {
    const Sealed file(2 * kHashChunkBytes);
    sys::ftruncate(file.fd.get(), kHashChunkBytes + 5, "sealed");
    CHECK_FALSE(file.readable(kHashChunkBytes));
}
