// Training: what to train on what, and how it went.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "slipway/train/communicator.hpp"

namespace slipway::train {

struct TrainOptions {
    std::string model;  ///< a name of model_names()
    std::string data;   ///< a directory with files in MNIST's format, plain or gzip
    int epochs = 30;
    int stop_after = 0;  ///< end after this epoch, as if interrupted; 0: never
    std::string strategy = "allreduce";
    std::string device = "cpu";
    int batch_size = 64;  ///< over all ranks: the result does not depend on their number
    double learning_rate = 0.05;
    std::string schedule = "cosine";  ///< cosine (down to nothing over the epochs) or constant
    double momentum = 0.9;
    double weight_decay = 1e-4;
    bool augment = true;  ///< deform training images at random
    uint64_t seed = 1;
    std::string checkpoint;    ///< file or directory; "": none
    int checkpoint_every = 1;  ///< epochs
    bool resume = false;
    int threads = 0;                 ///< 0: the usable CPUs, shared among the ranks of this node
    std::string overlap = "auto";    ///< auto, thread, inline, end: when gradients are reduced
    size_t bucket_bytes = 1u << 20;  ///< gradients reduced at once
};

struct TrainReport {
    double test_accuracy = 0;
    double test_loss = 0;
    double train_loss = 0;         ///< of the last epoch
    double images_per_second = 0;  ///< over all ranks, without the first steps; 0 if none was timed
    double seconds = 0;            ///< training, without reading the data
    int epochs = 0;                ///< completed, those before a resume included
    uint64_t parameters = 0;
    uint64_t arena_bytes = 0;  ///< activations and scratch, as planned
    int threads = 1;
};

/// One oneDNN primitive of a compiled model.
struct PrimitiveInfo {
    std::string step;
    std::string implementation;  ///< oneDNN's name for it; "ref:any" would be a defect
};

/// The built-in models, for messages and help.
std::vector<std::string> model_names();

/// Train and evaluate; collective over the communicator's ranks.
/// Throws: Error(unsupported) for models, strategies and devices this build does not have;
/// Error(invalid_data) for data or a checkpoint that breaks its format; Error(launcher).
TrainReport train(const TrainOptions& options, Communicator& communicator);

/// Compile the model as train() would and tell which implementation each step uses.
std::vector<PrimitiveInfo> list_primitives(const TrainOptions& options);

}  // namespace slipway::train
