// Steps, epochs and evaluation of one rank among its peers.
// Must not: print, or write files.
#include "trainer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

#include "random.hpp"
#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"

namespace slipway::train {

namespace {

using Clock = std::chrono::steady_clock;

cpu::Executor::Options executor_options(const TrainOptions& options, const World& world) {
    const int64_t largest_part = (options.batch_size + world.size - 1) / world.size;
    return {std::max<int64_t>(1, largest_part), false};
}

// Measured with LeNet on 28×28 images, two ranks on two busy CPUs, MPICH, images/s: thread
// 2,440–3,070, end 2,120–2,550, inline 1,520–2,130. A thread of its own meets the late ranks while
// this one computes on; with one bucket there is nothing to compute on beside.
Overlap choose_overlap(const TrainOptions& options, size_t buckets, const World& world) {
    if (options.overlap == "thread") return Overlap::thread;
    if (options.overlap == "inline") return Overlap::inlined;
    if (options.overlap == "end" || world.size == 1 || buckets < 2) return Overlap::end;
    return Overlap::thread;
}

// Half a cosine from the full rate to nothing, over all epochs.
double learning_rate_at(const TrainOptions& options, double progress) {
    if (options.schedule == "constant") return options.learning_rate;
    return options.learning_rate * 0.5 * (1 + std::cos(progress * std::numbers::pi));
}

}  // namespace

Trainer::Trainer(const TrainOptions& options, const Dataset& dataset, const Graph& graph,
                 Communicator& communicator)
    : options_(options),
      dataset_(dataset),
      graph_(graph),
      communicator_(communicator),
      executor_(graph, executor_options(options, communicator.world())),
      values_(executor_.arena_count(), 0.0f),
      velocity_(executor_.arena_count(), 0.0f) {
    check_layouts();
    gradients_ = communicator.reduce_buffer(executor_.arena_count());
    executor_.bind(values_.data(), gradients_.local);
    std::vector<size_t> counts;
    for (const auto& slot : executor_.slots()) counts.push_back(slot.count);
    auto buckets = plan_buckets(counts, options.bucket_bytes / sizeof(float));
    const Overlap overlap = choose_overlap(options, buckets.size(), communicator.world());
    reducer_ = std::make_unique<GradientReducer>(communicator, std::move(buckets), overlap);
}

// Gradients are summed as they lie in memory: unlike layouts would be summed to nonsense.
void Trainer::check_layouts() const {
    const auto mine = sha256(executor_.layout_text()).text();
    const int size = communicator_.world().size;
    std::string all(mine.size() * static_cast<size_t>(size), '\0');
    communicator_.all_gather(mine.data(), mine.size(), all.data());
    for (int rank = 0; rank < size; ++rank) {
        if (all.compare(mine.size() * static_cast<size_t>(rank), mine.size(), mine) == 0) continue;
        throw Error(ErrorKind::launcher,
                    fmt::format("ranks {} and {} chose different memory layouts for the model",
                                communicator_.world().rank, rank))
            .note("their CPUs have different vector instructions")
            .hint("set ONEDNN_MAX_CPU_ISA=AVX2 for all ranks, or use nodes of one kind");
    }
}

void Trainer::initialize() {
    const auto specs = graph_.parameters();
    for (size_t slot = 0; slot < executor_.slots().size(); ++slot) {
        const auto& name = executor_.slots()[slot].name;
        const auto spec = std::find_if(specs.begin(), specs.end(),
                                       [&](const ParameterSpec& s) { return s.name == name; });
        std::vector<float> canonical(static_cast<size_t>(element_count(spec->dims)), 0.0f);
        if (spec->fan_in >
            0) {  // uniform, a third of the variance of He et al. 2015: no wild start
            const double bound = std::sqrt(2.0 / static_cast<double>(spec->fan_in));
            Random random(options_.seed, static_cast<uint64_t>(spec - specs.begin()));
            for (float& value : canonical)
                value = static_cast<float>((2 * random.uniform() - 1) * bound);
        }
        executor_.write_parameter(values_.data(), slot, canonical.data());
    }
    std::fill(velocity_.begin(), velocity_.end(), 0.0f);
}

void Trainer::broadcast_state() {
    communicator_.broadcast(values_.data(), values_.size() * sizeof(float), 0);
    communicator_.broadcast(velocity_.data(), velocity_.size() * sizeof(float), 0);
}

uint64_t Trainer::parameter_count() const {
    uint64_t count = 0;
    for (const auto& spec : graph_.parameters())
        count += static_cast<uint64_t>(element_count(spec.dims));
    return count;
}

Checkpoint Trainer::snapshot(int epoch) const {
    Checkpoint checkpoint{graph_.name(),
                          graph_.input(),
                          graph_.output()[0],
                          epoch,
                          options_.seed,
                          communicator_.world().size,
                          options_.batch_size,
                          options_.learning_rate,
                          options_.momentum,
                          options_.weight_decay,
                          {}};
    auto& executor = const_cast<cpu::Executor&>(executor_);  // reordering uses its stream
    for (size_t slot = 0; slot < executor_.slots().size(); ++slot) {
        const auto& place = executor_.slots()[slot];
        SavedParameter saved{place.name, place.dims, {}, {}};
        saved.value.resize(static_cast<size_t>(element_count(place.dims)));
        saved.velocity.resize(saved.value.size());
        executor.read_parameter(values_.data(), slot, saved.value.data());
        executor.read_parameter(velocity_.data(), slot, saved.velocity.data());
        checkpoint.parameters.push_back(std::move(saved));
    }
    return checkpoint;
}

void Trainer::restore(const Checkpoint& checkpoint, const std::string& subject) {
    const auto differs = [&](const std::string& what) {
        return Error(ErrorKind::invalid_data,
                     fmt::format("checkpoint {} is of another training: {}",
                                 slipway::quoted(subject), what))
            .hint("give the model and data that it was made with, or another --checkpoint");
    };
    if (checkpoint.model != graph_.name())
        throw differs("its model is " + checkpoint.model + ", not " + graph_.name());
    if (checkpoint.image != graph_.input())
        throw differs(fmt::format("its images are {}, not {}", shape_text(checkpoint.image),
                                  shape_text(graph_.input())));
    if (checkpoint.classes != graph_.output()[0])
        throw differs(
            fmt::format("it knows {} classes, not {}", checkpoint.classes, graph_.output()[0]));
    for (size_t slot = 0; slot < executor_.slots().size(); ++slot) {
        const auto& place = executor_.slots()[slot];
        const auto saved =
            std::find_if(checkpoint.parameters.begin(), checkpoint.parameters.end(),
                         [&](const SavedParameter& p) { return p.name == place.name; });
        if (saved == checkpoint.parameters.end() || saved->dims != place.dims)
            throw differs("it has no parameter " + place.name + " of this shape");
        executor_.write_parameter(values_.data(), slot, saved->value.data());
        executor_.write_parameter(velocity_.data(), slot, saved->velocity.data());
    }
}

void Trainer::train_step(std::span<const uint32_t> global_batch, double rate, Score& score) {
    const World& world = communicator_.world();
    const auto batch_size = static_cast<int64_t>(global_batch.size());
    const Part part = part_of(batch_size, world.rank, world.size);
    cpu::LossState& loss = executor_.loss();
    loss.valid = part.size();
    loss.scale = 1.0f / static_cast<float>(batch_size);
    const auto mine =
        global_batch.subspan(static_cast<size_t>(part.first), static_cast<size_t>(part.size()));
    if (options_.augment) {
        gather_augmented(dataset_, dataset_.train, mine, AugmentOptions{}, deformation_key_,
                         executor_.input(), loss.labels.data());
    } else {
        gather(dataset_, dataset_.train, mine, executor_.input(), loss.labels.data());
    }

    executor_.forward();
    reducer_->start();
    executor_.backward([&](size_t end) { reducer_->ready(end); });
    reducer_->finish();
    sgd_step(values_.data(), velocity_.data(), gradients_.sum, values_.size(),
             {static_cast<float>(rate), static_cast<float>(options_.momentum),
              static_cast<float>(options_.weight_decay)});
    score.loss += loss.loss_sum;
    score.correct += static_cast<double>(loss.correct);
    score.images += static_cast<double>(part.size());
}

Score Trainer::all_ranks(Score score) {
    double values[] = {score.loss, score.correct, score.images};
    communicator_.sum(values);
    return {values[0], values[1], values[2]};
}

Score Trainer::train_epoch(int epoch, int& steps_not_timed) {
    const std::vector<uint32_t> order = epoch_order(options_.seed, epoch, dataset_.train.count);
    const auto batch = static_cast<size_t>(options_.batch_size);
    deformation_key_ = Random(options_.seed, static_cast<uint64_t>(epoch)).next();
    Score score;
    Clock::time_point start = Clock::now();
    size_t timed_from = 0;
    for (size_t first = 0; first < order.size(); first += batch) {
        const size_t count = std::min(batch, order.size() - first);
        const double progress =
            epoch + static_cast<double>(first) / static_cast<double>(order.size());
        const double rate = learning_rate_at(options_, progress / options_.epochs);
        train_step({order.data() + first, count}, rate, score);
        if (steps_not_timed > 0) {
            --steps_not_timed;
            start = Clock::now();
            timed_from = first + count;
        }
    }
    timed_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
    timed_images_ += static_cast<double>(order.size() - timed_from);
    return all_ranks(score);
}

Score Trainer::evaluate() {
    const World& world = communicator_.world();
    const Part part = part_of(dataset_.test.count, world.rank, world.size);
    cpu::LossState& loss = executor_.loss();
    const auto capacity = static_cast<int64_t>(loss.labels.size());
    Score score;
    std::vector<uint32_t> indices;
    for (int64_t first = part.first; first < part.last; first += capacity) {
        loss.valid = std::min(capacity, part.last - first);
        indices.clear();
        for (int64_t i = 0; i < loss.valid; ++i)
            indices.push_back(static_cast<uint32_t>(first + i));
        gather(dataset_, dataset_.test, indices, executor_.input(), loss.labels.data());
        executor_.forward();
        score.loss += loss.loss_sum;
        score.correct += static_cast<double>(loss.correct);
        score.images += static_cast<double>(loss.valid);
    }
    return all_ranks(score);
}

}  // namespace slipway::train
