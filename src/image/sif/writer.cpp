// Writes SIF files that Apptainer and Singularity run.
// Must not: change the squashfs that goes inside.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <vector>

#include "../temp_file.hpp"
#include "sif.hpp"
#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::image {
namespace {

// Source: github.com/apptainer/sif, pkg/sif (header.go, descriptor.go, create.go).
constexpr uint64_t kTableAt = 4096, kDataAt = 32768, kAlignment = 4096;
constexpr size_t kDescriptorBytes = 585, kMostDescriptors = 48;
constexpr uint32_t kLabels = 0x4003, kPartition = 0x4004, kGenericJson = 0x4006;
constexpr uint32_t kGroupOne = 0xf0000001;
constexpr uint32_t kSquashfs = 1, kPrimarySystem = 2;

/// Bytes in the order of a little-endian machine, at a place of their own.
class Record {
 public:
    explicit Record(size_t size_bytes) : bytes_(size_bytes, '\0') {}
    Record& text(size_t at, std::string_view value) {
        bytes_.replace(at, value.size(), value);
        return *this;
    }
    Record& number(size_t at, uint64_t value, size_t size_bytes) {
        for (size_t i = 0; i < size_bytes; ++i)
            bytes_[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
        return *this;
    }
    const std::string& bytes() const { return bytes_; }

 private:
    std::string bytes_;
};

/// One data object: what its descriptor says.
struct Object {
    uint32_t type = 0;
    std::string name;
    uint64_t size_bytes = 0;
    uint64_t alignment = 1;
    std::string extra;  ///< what belongs to its type
    std::string content;
    uint64_t offset_bytes = 0;
    uint64_t padding_bytes = 0;  ///< before it
};

Object small_object(uint32_t type, const std::string& name, std::string content) {
    Object object;
    object.type = type;
    object.name = name;
    object.size_bytes = content.size();
    object.content = std::move(content);
    return object;
}

std::string descriptor_of(const Object& object, uint32_t number, int64_t modified) {
    const auto time = static_cast<uint64_t>(modified);
    return Record(kDescriptorBytes)
        .number(0, object.type, 4)
        .number(4, 1, 1)  // used
        .number(5, number, 4)
        .number(9, kGroupOne, 4)
        .number(17, object.offset_bytes, 8)
        .number(25, object.size_bytes, 8)
        .number(33, object.size_bytes + object.padding_bytes, 8)
        .number(41, time, 8)
        .number(49, time, 8)
        .text(73, object.name)
        .text(201, object.extra)
        .bytes();
}

std::string header_of(const std::string& architecture, const Digest& squashfs, size_t objects,
                      uint64_t data_bytes, int64_t modified) {
    // An identity that the same contents have again; version 8 of RFC 9562 is for such.
    std::string uuid;
    for (size_t i = 0; i < 16; ++i)
        uuid += static_cast<char>(std::stoi(squashfs.hex().substr(2 * i, 2), nullptr, 16));
    uuid[6] = static_cast<char>((uuid[6] & 0x0f) | 0x80);
    uuid[8] = static_cast<char>((uuid[8] & 0x3f) | 0x80);
    const auto time = static_cast<uint64_t>(modified);
    return Record(128)
        .text(0, "#!/usr/bin/env run-singularity\n")
        .text(32, "SIF_MAGIC")
        .text(42, "01")
        .text(45, architecture)
        .text(48, uuid)
        .number(64, time, 8)
        .number(72, time, 8)
        .number(80, kMostDescriptors - objects, 8)
        .number(88, kMostDescriptors, 8)
        .number(96, kTableAt, 8)
        .number(104, kMostDescriptors * kDescriptorBytes, 8)
        .number(112, kDataAt, 8)
        .number(120, data_bytes, 8)
        .bytes();
}

std::string partition_extra(const std::string& architecture) {
    return Record(11)
        .number(0, kSquashfs, 4)
        .number(4, kPrimarySystem, 4)
        .text(8, architecture)
        .bytes();
}

/// Give each object its place, one after another. Returns the end.
uint64_t place(std::vector<Object>& objects) {
    uint64_t end = kDataAt;
    for (Object& object : objects) {
        object.offset_bytes = (end + object.alignment - 1) / object.alignment * object.alignment;
        object.padding_bytes = object.offset_bytes - end;
        end = object.offset_bytes + object.size_bytes;
    }
    return end;
}

std::string code_of(const ImageConfig& config, const std::string& path) {
    const std::string code = sif_architecture_code(config.architecture);
    if (!code.empty()) return code;
    throw Error(ErrorKind::unsupported,
                fmt::format("cannot write {}: SIF has no code for the architecture {}",
                            slipway::quoted(path), slipway::quoted(config.architecture)))
        .hint("write a squashfs file (NAME.sqfs) instead");
}

}  // namespace

uint64_t write_sif(int squashfs_fd, const ImageConfig& config, int64_t modified,
                   const std::string& path) {
    const std::string code = code_of(config, path);
    std::vector<Object> objects;
    objects.push_back(
        small_object(kGenericJson, "oci-config.json", to_text(config_to_json(config), 2) + "\n"));
    if (!config.labels.empty()) {
        objects.push_back(
            small_object(kLabels, "labels.json", to_text(Json(config.labels), 2) + "\n"));
    }
    Object root;
    root.type = kPartition;
    root.name = "rootfs.squashfs";
    root.size_bytes = static_cast<uint64_t>(sys::fstat(squashfs_fd, path).st_size);
    root.alignment = kAlignment;
    root.extra = partition_extra(code);
    objects.push_back(root);

    const uint64_t end = place(objects);
    NewFile file(path);
    const auto put = [&](const std::string& bytes, uint64_t at) {
        sys::pwrite_all(file.fd(), bytes.data(), bytes.size(), at, path);
    };
    put(header_of(code, sha256_file(squashfs_fd, path), objects.size(), end - kDataAt, modified),
        0);
    for (size_t i = 0; i < objects.size(); ++i) {
        put(descriptor_of(objects[i], static_cast<uint32_t>(i + 1), modified),
            kTableAt + i * kDescriptorBytes);
        if (!objects[i].content.empty()) put(objects[i].content, objects[i].offset_bytes);
    }
    copy_bytes(squashfs_fd, 0, file.fd(), objects.back().offset_bytes, root.size_bytes, path);
    sys::fsync(file.fd(), path);
    file.commit(user_mode(0777));
    return end;
}

}  // namespace slipway::image
