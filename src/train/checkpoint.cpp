// Writes and reads checkpoints; believes nothing in a file before its digest is right.
// Must not: know layouts or ranks.
#include "checkpoint.hpp"

#include <fcntl.h>
#include <fmt/core.h>

#include <bit>
#include <cstring>

#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::train {

namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");
constexpr std::string_view kMagic = "SLPWTRN\n";
constexpr uint32_t kVersion = 1;
constexpr size_t kDigestBytes = 32;
constexpr size_t kPrefixBytes = 16;  // magic, version, header size
constexpr uint64_t kLimitBytes = uint64_t{64} << 30;

Error broken(const std::string& subject, const std::string& why) {
    return Error(ErrorKind::invalid_data, fmt::format("{} is no checkpoint of slipway-train: {}",
                                                      slipway::quoted(subject), why))
        .hint("name another file with --checkpoint, or move this one away and train anew");
}

void append_u32(std::string& out, uint32_t value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

uint32_t u32_at(std::string_view bytes, size_t offset) {
    uint32_t value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
}

std::string digest_bytes(std::string_view data) {
    Sha256 hash;
    hash.update(data);
    const auto digest = hash.finish_bytes();
    return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

Json header_of(const Checkpoint& checkpoint) {
    Json parameters = Json::array();
    for (const SavedParameter& parameter : checkpoint.parameters)
        parameters.push_back({{"name", parameter.name}, {"dims", parameter.dims}});
    return {{"model", checkpoint.model},
            {"image", checkpoint.image},
            {"classes", checkpoint.classes},
            {"epoch", checkpoint.epoch},
            {"seed", checkpoint.seed},
            {"ranks", checkpoint.ranks},
            {"batch_size", checkpoint.batch_size},
            {"learning_rate", checkpoint.learning_rate},
            {"momentum", checkpoint.momentum},
            {"weight_decay", checkpoint.weight_decay},
            {"parameters", parameters}};
}

void read_header(const Json& header, Checkpoint& checkpoint) {
    checkpoint.model = header.at("model").get<std::string>();
    checkpoint.image = header.at("image").get<Shape>();
    checkpoint.classes = header.at("classes").get<int64_t>();
    checkpoint.epoch = header.at("epoch").get<int>();
    checkpoint.seed = header.at("seed").get<uint64_t>();
    checkpoint.ranks = header.at("ranks").get<int>();
    checkpoint.batch_size = header.at("batch_size").get<int>();
    checkpoint.learning_rate = header.at("learning_rate").get<double>();
    checkpoint.momentum = header.at("momentum").get<double>();
    checkpoint.weight_decay = header.at("weight_decay").get<double>();
    for (const Json& entry : header.at("parameters"))
        checkpoint.parameters.push_back({entry.at("name").get<std::string>(),
                                         entry.at("dims").get<std::vector<int64_t>>(),
                                         {},
                                         {}});
}

// Take `count` floats off the front of `rest`.
std::vector<float> take_floats(std::string_view& rest, const SavedParameter& parameter,
                               const std::string& subject) {
    uint64_t count = 1;
    for (int64_t extent : parameter.dims) {
        if (extent <= 0 || static_cast<uint64_t>(extent) > kLimitBytes / count)
            throw broken(subject, "impossible extents of " + slipway::quoted(parameter.name));
        count *= static_cast<uint64_t>(extent);
    }
    if (rest.size() / sizeof(float) < count)
        throw broken(subject, "it ends within " + slipway::quoted(parameter.name));
    std::vector<float> values(count);
    std::memcpy(values.data(), rest.data(), count * sizeof(float));
    rest.remove_prefix(count * sizeof(float));
    return values;
}

}  // namespace

std::string checkpoint_path(const std::string& argument) {
    if (argument.empty()) return {};
    auto status = sys::stat_if_exists(AT_FDCWD, argument);
    const bool directory = argument.back() == '/' || (status && S_ISDIR(status->st_mode));
    return directory ? join_path(argument, "checkpoint.slipway") : argument;
}

std::string encode_checkpoint(const Checkpoint& checkpoint) {
    const std::string header = to_text(header_of(checkpoint));
    std::string bytes(kMagic);
    append_u32(bytes, kVersion);
    append_u32(bytes, static_cast<uint32_t>(header.size()));
    bytes += header;
    for (const SavedParameter& parameter : checkpoint.parameters)
        for (const auto* floats : {&parameter.value, &parameter.velocity})
            bytes.append(reinterpret_cast<const char*>(floats->data()),
                         floats->size() * sizeof(float));
    bytes += digest_bytes(bytes);
    return bytes;
}

Checkpoint decode_checkpoint(std::string_view bytes, const std::string& subject) {
    if (bytes.substr(0, kMagic.size()) != kMagic) throw broken(subject, "wrong magic number");
    if (bytes.size() < kPrefixBytes + kDigestBytes) throw broken(subject, "it is cut short");
    const uint32_t version = u32_at(bytes, 8);
    if (version != kVersion)
        throw broken(subject, fmt::format("version {}, this program reads {}", version, kVersion));
    const std::string_view content = bytes.substr(0, bytes.size() - kDigestBytes);
    if (bytes.substr(content.size()) != digest_bytes(content))
        throw broken(subject, "its digest does not fit its content (damaged or cut short)");
    const size_t header_size = u32_at(bytes, 12);
    if (header_size > content.size() - kPrefixBytes)
        throw broken(subject, "its header is longer than the file");

    Checkpoint checkpoint;
    try {
        read_header(Json::parse(content.substr(kPrefixBytes, header_size)), checkpoint);
    } catch (const Json::exception& error) {
        throw broken(subject, std::string("its header cannot be read: ") + error.what());
    }
    std::string_view rest = content.substr(kPrefixBytes + header_size);
    for (SavedParameter& parameter : checkpoint.parameters) {
        parameter.value = take_floats(rest, parameter, subject);
        parameter.velocity = take_floats(rest, parameter, subject);
    }
    if (!rest.empty()) throw broken(subject, "something follows its last parameter");
    return checkpoint;
}

std::optional<Checkpoint> read_checkpoint_if_exists(const std::string& path) {
    if (!sys::stat_if_exists(AT_FDCWD, path)) return std::nullopt;
    return decode_checkpoint(read_file(path, kLimitBytes), path);
}

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
    const std::string parent(parent_path(path));
    if (!parent.empty()) sys::make_directories(parent);
    write_file_atomic(path, encode_checkpoint(checkpoint));
}

}  // namespace slipway::train
