// The starter's operator new: what a start allocates is taken from one piece of memory and, but for
// what was allocated last, not given back. It is the command's memory after a millisecond anyway.
// Must not: be used by several threads: malloc serves the image's server from its first one on, and
// whatever does not fit.
#include <sys/single_threaded.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>

namespace {

constexpr size_t kPieceBytes = 256 << 10;
constexpr size_t kAlignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

alignas(kAlignment) char piece[kPieceBytes];  // untouched pages cost nothing
char* free_from = piece;

/// What an allocation takes of the piece. Pre: no more than the piece.
constexpr size_t taken_by(size_t bytes) {
    return (bytes + (bytes == 0) + kAlignment - 1) & ~(kAlignment - 1);
}

bool is_ours(const char* memory) {
    return !std::less<>()(memory, piece) && std::less<>()(memory, piece + kPieceBytes);
}

}  // namespace

void* operator new(size_t bytes) {
    const auto left = static_cast<size_t>(piece + kPieceBytes - free_from);
    if (__libc_single_threaded && bytes <= kPieceBytes && taken_by(bytes) <= left) {
        char* memory = free_from;
        free_from += taken_by(bytes);
        return memory;
    }
    if (void* memory = std::malloc(bytes + (bytes == 0))) return memory;
    throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
    if (!is_ours(static_cast<char*>(memory))) std::free(memory);
}

void operator delete(void* memory, size_t bytes) noexcept {
    char* begin = static_cast<char*>(memory);
    if (!is_ours(begin))
        std::free(memory);
    else if (__libc_single_threaded && begin + taken_by(bytes) == free_from)
        free_from = begin;
}
