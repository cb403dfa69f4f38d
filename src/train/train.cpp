// The story of a training run: read, compile, resume, train, save, evaluate.
// Must not: know how a step is done (trainer.cpp) or how ranks talk (comm/).
#include "slipway/train/train.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "models/zoo.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "threads.hpp"
#include "trainer.hpp"

namespace slipway::train {

namespace {

using Clock = std::chrono::steady_clock;

// The first steps find memory and kernels cold; throughput counts the steps after them.
constexpr int kStepsNotTimed = 5;

void check_options(const TrainOptions& options) {
    if (options.device == "cuda")
        throw Error(ErrorKind::unsupported, "this build of slipway-train has no CUDA part")
            .hint("use --device cpu: this version has no GPU part yet");
    if (options.device != "cpu")
        throw Error(ErrorKind::usage, "there is no device " + slipway::quoted(options.device))
            .hint("use --device cpu");
    if (options.strategy != "allreduce")
        throw Error(ErrorKind::unsupported,
                    "strategy " + slipway::quoted(options.strategy) + " is not in this version")
            .hint("use --strategy allreduce");
    if (options.resume && options.checkpoint.empty())
        throw Error(ErrorKind::usage, "--resume needs --checkpoint");
    if (options.batch_size < 1) throw Error(ErrorKind::usage, "--batch-size must be at least 1");
    if (options.epochs < 0) throw Error(ErrorKind::usage, "--epochs must not be negative");
}

// Rank 0 reads, all learn how it went; the parameters follow by broadcast.
int resume(Trainer& trainer, const TrainOptions& options, const std::string& path,
           Communicator& communicator) {
    int epoch = 0;
    if (communicator.world().rank == 0) {
        if (auto checkpoint = read_checkpoint_if_exists(path)) {
            trainer.restore(*checkpoint, path);
            epoch = checkpoint->epoch;
            if (checkpoint->seed != options.seed || checkpoint->batch_size != options.batch_size)
                log::warning(
                    "resuming {} with another --seed or --batch-size (it was made with {} and {}): "
                    "the result will differ from an uninterrupted run",
                    slipway::quoted(path), checkpoint->seed, checkpoint->batch_size);
            log::info("resumed from {} after epoch {}", slipway::quoted(path), epoch);
        } else {
            log::info("no checkpoint at {} yet: training from the beginning",
                      slipway::quoted(path));
        }
    }
    communicator.broadcast(&epoch, sizeof epoch, 0);
    return epoch;
}

void report_epoch(const TrainOptions& options, int epoch, const Score& score, double rate) {
    log::info("epoch {}/{}: loss {:.4f}, accuracy {:.4f}, {:.0f} images/s", epoch, options.epochs,
              score.loss / score.images, score.correct / score.images, rate);
}

void announce(const Graph& graph, const Dataset& dataset, const TrainOptions& options, int threads,
              const Trainer& trainer, const World& world) {
    log::info(
        "model {} with {} parameters on images of {}; {} to train, {} to test; {} rank{} ({}), {} "
        "thread{} each, batch of {}",
        graph.name(), trainer.parameter_count(), shape_text(graph.input()), dataset.train.count,
        dataset.test.count, world.size, world.size == 1 ? "" : "s", world.transport, threads,
        threads == 1 ? "" : "s", options.batch_size);
}

Graph model_for(const TrainOptions& options, const Dataset& dataset) {
    return build_model(options.model, dataset.train.shape, dataset.classes);
}

}  // namespace

TrainReport train(const TrainOptions& options, Communicator& communicator) {
    check_options(options);
    const bool speaker = communicator.world().rank == 0;
    const Dataset dataset = read_dataset(options.data);
    const Graph graph = model_for(options, dataset);
    // Forward and backward are three times the forward pass.
    const int64_t step_work =
        3 * multiply_adds(graph) * options.batch_size / communicator.world().size;
    const int threads = choose_threads(options.threads, step_work, communicator);
    apply_threads(threads);
    Trainer trainer(options, dataset, graph, communicator);
    if (speaker) announce(graph, dataset, options, threads, trainer, communicator.world());

    const std::string path = checkpoint_path(options.checkpoint);
    trainer.initialize();
    int epoch = options.resume ? resume(trainer, options, path, communicator) : 0;
    trainer.broadcast_state();

    TrainReport report;
    report.threads = threads;
    report.parameters = trainer.parameter_count();
    report.arena_bytes = trainer.planned_bytes();
    const auto start = Clock::now();
    int steps_not_timed = kStepsNotTimed;
    const int last =
        options.stop_after > 0 ? std::min(options.stop_after, options.epochs) : options.epochs;
    while (epoch < last) {
        const double images = trainer.timed_images(), seconds = trainer.timed_seconds();
        const Score score = trainer.train_epoch(epoch, steps_not_timed);
        ++epoch;
        report.train_loss = score.loss / score.images;
        const double elapsed = trainer.timed_seconds() - seconds;
        const double rate = elapsed > 0 ? (trainer.timed_images() - images) / elapsed : 0;
        if (!speaker) continue;
        report_epoch(options, epoch, score, rate);
        if (!std::isfinite(report.train_loss))
            throw Error(ErrorKind::invalid_data, "training has diverged: the loss is no number")
                .hint("use a smaller --lr");
        const bool due = epoch == last || epoch % options.checkpoint_every == 0;
        if (!path.empty() && due) write_checkpoint(path, trainer.snapshot(epoch));
    }
    report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const Score test = trainer.evaluate();
    report.test_accuracy = test.correct / test.images;
    report.test_loss = test.loss / test.images;
    report.epochs = epoch;
    if (trainer.timed_seconds() > 0)
        report.images_per_second = trainer.timed_images() / trainer.timed_seconds();
    return report;
}

std::vector<PrimitiveInfo> list_primitives(const TrainOptions& options) {
    check_options(options);
    const Dataset dataset = read_dataset(options.data);
    const Graph graph = model_for(options, dataset);
    return cpu::Executor(graph, {options.batch_size, false}).primitives();
}

}  // namespace slipway::train
