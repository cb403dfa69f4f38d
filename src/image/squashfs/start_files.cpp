// Finds the files with which a program starts, and reads them into the cache.
// Must not: report anything, answer requests, or believe what an ELF file says of its own size.
#include "start_files.hpp"

#include <elf.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <optional>
#include <set>
#include <thread>

#include "slipway/base/path.hpp"

namespace slipway::image::squashfs {
namespace {

constexpr uint64_t kStep = 128 << 10;  // what is read before `stop` is looked at again
constexpr size_t kMostHeaders = 64;
constexpr size_t kMostLibraries = 64;
constexpr size_t kMostDynamic = 64 << 10;
constexpr size_t kMostScripts = 4;  // a script's interpreter may be a script, as for the kernel
constexpr const char* kLibraryDirectories[] = {"/lib64", "/usr/lib64", "/lib", "/usr/lib"};

/// A file and the directory that holds it.
struct Found {
    InodeInfo file, directory;
};

/// Follow a path and its links from the root, to a regular file.
std::optional<Found> follow(const ImageReader& reader, const std::string& path) {
    const auto trail = reader.resolve(path);
    if (trail.size() < 2 || !S_ISREG(trail.back().mode)) return std::nullopt;
    return Found{trail.back(), trail[trail.size() - 2]};
}

std::string bytes_at(const ImageReader& reader, const InodeInfo& file, uint64_t offset,
                     size_t size_bytes) {
    std::string bytes;
    for (const Piece& piece : reader.read(file, offset, size_bytes)) {
        if (piece.block)
            bytes.append(reinterpret_cast<const char*>(piece.block->data.get()) + piece.offset,
                         piece.size_bytes);
        else
            bytes.append(piece.size_bytes, '\0');
    }
    return bytes;
}

std::string text_at(const ImageReader& reader, const InodeInfo& file, uint64_t offset) {
    const std::string bytes = bytes_at(reader, file, offset, PATH_MAX);
    return bytes.substr(0, bytes.find('\0'));
}

template <typename T>
std::vector<T> records(const std::string& bytes) {
    std::vector<T> all(bytes.size() / sizeof(T));
    if (!all.empty()) std::memcpy(all.data(), bytes.data(), all.size() * sizeof(T));
    return all;
}

/// What an ELF file of this machine's kind wants beside itself.
struct Needs {
    std::string interpreter;
    std::vector<std::string> libraries;
};

std::optional<uint64_t> file_offset(const std::vector<Elf64_Phdr>& headers, uint64_t address) {
    for (const auto& header : headers)
        if (header.p_type == PT_LOAD && address >= header.p_vaddr &&
            address - header.p_vaddr < header.p_filesz)
            return header.p_offset + (address - header.p_vaddr);
    return std::nullopt;
}

Needs read_needs(const ImageReader& reader, const InodeInfo& file) {
    Needs needs;
    const auto starts = records<Elf64_Ehdr>(bytes_at(reader, file, 0, sizeof(Elf64_Ehdr)));
    if (starts.empty() || std::memcmp(starts[0].e_ident, ELFMAG, SELFMAG) != 0 ||
        starts[0].e_ident[EI_CLASS] != ELFCLASS64 || starts[0].e_ident[EI_DATA] != ELFDATA2LSB ||
        starts[0].e_phentsize != sizeof(Elf64_Phdr))
        return needs;
    const auto headers = records<Elf64_Phdr>(
        bytes_at(reader, file, starts[0].e_phoff,
                 std::min<size_t>(starts[0].e_phnum, kMostHeaders) * sizeof(Elf64_Phdr)));
    std::optional<uint64_t> names;
    std::vector<uint64_t> offsets;
    for (const auto& header : headers) {
        if (header.p_type == PT_INTERP) needs.interpreter = text_at(reader, file, header.p_offset);
        if (header.p_type != PT_DYNAMIC) continue;
        for (const auto& entry :
             records<Elf64_Dyn>(bytes_at(reader, file, header.p_offset,
                                         std::min<uint64_t>(header.p_filesz, kMostDynamic)))) {
            if (entry.d_tag == DT_NULL) break;
            if (entry.d_tag == DT_STRTAB) names = file_offset(headers, entry.d_un.d_ptr);
            if (entry.d_tag == DT_NEEDED && offsets.size() < kMostLibraries)
                offsets.push_back(entry.d_un.d_val);
        }
    }
    for (const uint64_t offset : offsets)
        if (names && offset <= UINT64_MAX - *names)
            needs.libraries.push_back(text_at(reader, file, *names + offset));
    return needs;
}

/// The program after "#!", or "".
std::string script_interpreter(const std::string& head) {
    if (!head.starts_with("#!")) return {};
    const size_t start = head.find_first_not_of(" \t", 2);
    if (start == std::string::npos) return {};
    return head.substr(start, head.find_first_of(" \t\n", start) - start);
}

/// One reading ahead, with what is left of its allowance.
class StartFiles {
 public:
    StartFiles(const ImageReader& reader, const std::atomic<bool>& stop,
               const std::function<void(const InodeInfo&)>& found)
        : reader_(reader), stop_(stop), found_(found) {}

    void add(const InodeInfo& file) {
        if (!seen_.insert(file.reference).second) return;
        if (found_) found_(file);
        const uint64_t end = std::min({file.size_bytes, kMostAheadOfFile, kMostAhead - read_});
        if (reader_.is_stored_plain(file))
            reader_.read_disk_ahead(file, end);
        else
            read(file, end);
        read_ += end;
    }
    void add(const std::string& path) {
        if (const auto found = find(path)) add(found->file);
    }
    void add_program(const std::vector<std::string>& programs);
    uint64_t read_bytes() const { return read_; }

 private:
    void read(const InodeInfo& file, uint64_t end) const {
        for (uint64_t offset = 0; offset < end && !stop_; offset += kStep) {
            std::this_thread::yield();  // to the command, and to who answers it
            reader_.read(file, offset, std::min(kStep, end - offset));
        }
    }
    std::optional<Found> find(const std::string& path) const {
        return stop_ ? std::nullopt : follow(reader_, path);
    }
    std::optional<InodeInfo> find_library(const std::string& name,
                                          const std::optional<Found>& interpreter) const;

    const ImageReader& reader_;
    const std::atomic<bool>& stop_;
    const std::function<void(const InodeInfo&)>& found_;
    uint64_t read_ = 0;
    std::set<uint64_t> seen_;
};

std::optional<InodeInfo> StartFiles::find_library(const std::string& name,
                                                  const std::optional<Found>& interpreter) const {
    if (name.find('/') != std::string::npos || name.empty()) return std::nullopt;
    // Libraries lie beside the interpreter; many names are links in that directory.
    if (interpreter) {
        if (const auto entry = reader_.lookup(interpreter->directory, name)) {
            InodeInfo inode = reader_.inode(entry->reference);
            if (S_ISLNK(inode.mode) && inode.size_bytes < PATH_MAX) {
                const std::string target = reader_.link_target(inode);
                if (target.empty()) return std::nullopt;
                if (const auto real = reader_.lookup(interpreter->directory, target))
                    inode = reader_.inode(real->reference);
            }
            if (S_ISREG(inode.mode)) return inode;
        }
    }
    for (const char* directory : kLibraryDirectories)
        if (const auto found = find(join_path(directory, name))) return found->file;
    return std::nullopt;
}

void StartFiles::add_program(const std::vector<std::string>& programs) {
    std::optional<Found> program;
    for (const auto& path : programs)
        if ((program = find(path))) break;
    for (size_t i = 0; program && i < kMostScripts; ++i) {
        const std::string next = script_interpreter(bytes_at(reader_, program->file, 0, 256));
        if (next.empty()) break;
        program = find(next);
    }
    if (!program) return;
    const Needs needs = read_needs(reader_, program->file);
    add(program->file);
    std::optional<Found> interpreter;
    if (!needs.interpreter.empty()) interpreter = find(needs.interpreter);
    if (!interpreter) return;
    add(interpreter->file);
    add("/etc/ld.so.cache");
    for (const auto& name : needs.libraries)
        if (const auto library = find_library(name, interpreter)) add(*library);
}

}  // namespace

uint64_t read_start_files(const ImageReader& reader, const std::vector<std::string>& programs,
                          const std::vector<std::string>& files, const std::atomic<bool>& stop,
                          const std::function<void(const InodeInfo&)>& found) {
    StartFiles start(reader, stop, found);
    try {
        for (const auto& path : files) start.add(path);
        start.add_program(programs);
    } catch (const std::exception&) {  // who asks for it will be told
    }
    return start.read_bytes();
}

}  // namespace slipway::image::squashfs
