// Checkpoints: everything that training needs to go on as if it had not been interrupted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph.hpp"

namespace slipway::train {

/// A learned tensor in its canonical layout, with its momentum.
struct SavedParameter {
    std::string name;
    std::vector<int64_t> dims;
    std::vector<float> value;
    std::vector<float> velocity;
};

struct Checkpoint {
    std::string model;
    Shape image;
    int64_t classes = 0;
    int epoch = 0;      ///< completed
    uint64_t seed = 0;  ///< with the epoch, the whole state of the random numbers
    int ranks = 1;
    int batch_size = 0;
    double learning_rate = 0, momentum = 0, weight_decay = 0;
    std::vector<SavedParameter> parameters;
};

/// The file that `--checkpoint` names: itself, or "checkpoint.slipway" in it if it is a directory
/// or ends with "/".
std::string checkpoint_path(const std::string& argument);

/// File format, version 1: "SLPWTRN\n", u32 version, u32 header size, JSON header, floats (value
/// and velocity of each parameter), SHA-256 of all before; numbers little-endian.
std::string encode_checkpoint(const Checkpoint& checkpoint);
/// Throws: Error(invalid_data) naming `subject` for what is foreign, damaged, cut short or newer.
Checkpoint decode_checkpoint(std::string_view bytes, const std::string& subject);

/// std::nullopt when there is no such file.
std::optional<Checkpoint> read_checkpoint_if_exists(const std::string& path);
/// Write atomically: a reader sees the old one or the new one, whole.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

}  // namespace slipway::train
