// One rank's training state: model, arenas, optimizer and its share of the data.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "checkpoint.hpp"
#include "cpu/executor.hpp"
#include "data/dataset.hpp"
#include "optim/sgd.hpp"
#include "slipway/train/train.hpp"
#include "strategy/gradient_reducer.hpp"

namespace slipway::train {

/// Sums over images, of this rank or of all.
struct Score {
    double loss = 0;
    double correct = 0;
    double images = 0;
};

/// Synchronous data-parallel training; every call is collective.
class Trainer {
 public:
    Trainer(const TrainOptions& options, const Dataset& dataset, const Graph& graph,
            Communicator& communicator);

    /// Set parameters as they are before the first step; equal on all ranks.
    void initialize();
    /// Take rank 0's parameters and momentum.
    void broadcast_state();
    void restore(const Checkpoint& checkpoint, const std::string& subject);
    Checkpoint snapshot(int epoch) const;

    /// One pass over the training set; the score is of the batches as they were trained, summed
    /// over all ranks. `steps_not_timed` counts down over the first steps.
    Score train_epoch(int epoch, int& steps_not_timed);
    Score evaluate();

    double timed_images() const { return timed_images_; }
    double timed_seconds() const { return timed_seconds_; }
    uint64_t parameter_count() const;
    size_t planned_bytes() const { return executor_.planned_bytes(); }
    const std::vector<float>& values() const { return values_; }

 private:
    void check_layouts() const;
    void train_step(std::span<const uint32_t> global_batch, double rate, Score& score);
    Score all_ranks(Score score);

    TrainOptions options_;
    const Dataset& dataset_;
    const Graph& graph_;
    Communicator& communicator_;
    cpu::Executor executor_;
    std::vector<float> values_;
    std::vector<float> velocity_;
    ReduceBuffer gradients_;
    std::unique_ptr<GradientReducer> reducer_;
    uint64_t deformation_key_ = 0;  ///< of the epoch
    double timed_images_ = 0;
    double timed_seconds_ = 0;
};

}  // namespace slipway::train
