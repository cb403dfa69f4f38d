// The program slipway-train: command line in, report out.
// Must not: train; it only words options, errors and results.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/json.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/train/train.hpp"

namespace {

using namespace slipway;

struct Arguments {
    train::TrainOptions options;
    train::ConnectOptions connect;
    std::string json_path;
    bool list_primitives = false;
    bool no_shared_memory = false;
    int verbosity = 0;
};

/// CLI::Range lets "nan" pass: no comparison with it is true.
CLI::Validator number_between(double least, double most) {
    return {[=](std::string& text) -> std::string {
                char* end = nullptr;
                const double value = std::strtod(text.c_str(), &end);
                if (end != text.c_str() && *end == '\0' && value >= least && value <= most)
                    return {};
                return fmt::format("{} is no number from {} to {}", slipway::quoted(text), least,
                                   most);
            },
            fmt::format("[{} - {}]", least, most)};
}

/// Threads beyond a few for each processor only wait for each other.
int most_threads() {
    return std::max(64, 4 * static_cast<int>(std::thread::hardware_concurrency()));
}

void set_up(CLI::App& app, Arguments& arguments) {
    train::TrainOptions& options = arguments.options;
    std::string models;
    for (const auto& name : train::model_names()) models += (models.empty() ? "" : ", ") + name;
    app.set_version_flag("--version", "slipway-train " SLIPWAY_VERSION);
    app.add_option("--model", options.model, "Built-in model: " + models)->required();
    app.add_option("--data", options.data, "Directory with a data set in MNIST's format")
        ->required();
    app.add_option("--epochs", options.epochs, "Passes over the training set")
        ->capture_default_str();
    app.add_option("--strategy", options.strategy, "How ranks work together: allreduce")
        ->capture_default_str();
    app.add_option("--device", options.device, "cpu or cuda")->capture_default_str();
    app.add_option("--batch-size", options.batch_size, "Images a step, over all ranks")
        ->capture_default_str();
    app.add_option("--lr", options.learning_rate, "Learning rate")
        ->check(number_between(0, 1000))
        ->capture_default_str();
    app.add_option("--schedule", options.schedule,
                   "Learning rate over the epochs: cosine (down to nothing) or constant")
        ->check(CLI::IsMember({"cosine", "constant"}))
        ->capture_default_str();
    app.add_option("--momentum", options.momentum, "Momentum")
        ->check(number_between(0, 1))
        ->capture_default_str();
    app.add_option("--weight-decay", options.weight_decay, "Weight decay")
        ->check(number_between(0, 1000))
        ->capture_default_str();
    app.add_flag("!--no-augment", options.augment,
                 "Train on the images as they are, without random deformations");
    app.add_option("--seed", options.seed, "Seed of initial weights and of the images' order")
        ->capture_default_str();
    app.add_option("--checkpoint", options.checkpoint, "File or directory to save progress in");
    app.add_option("--checkpoint-every", options.checkpoint_every, "Epochs between checkpoints")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    app.add_option("--stop-after", options.stop_after,
                   "End after this epoch, to go on later with --resume")
        ->check(CLI::Range(0, 1000000));
    app.add_flag("--resume", options.resume,
                 "Go on from the checkpoint; without one, start from the beginning");
    app.add_option("--threads", options.threads,
                   "Threads a rank (default: the usable CPUs, shared among the ranks of a node)")
        ->check(CLI::Range(0, most_threads()));
    app.add_option("--transport", arguments.connect.transport,
                   "auto, single, openmpi or mpich (also SLIPWAY_TRANSPORT)")
        ->envname("SLIPWAY_TRANSPORT")
        ->check(CLI::IsMember({"auto", "single", "openmpi", "mpich"}))
        ->capture_default_str();
    app.add_flag("--no-shared-memory", arguments.no_shared_memory,
                 "Reduce gradients through MPI even within a node");
    app.add_option("--overlap", options.overlap,
                   "When gradients are reduced: auto, thread, inline or end")
        ->check(CLI::IsMember({"auto", "thread", "inline", "end"}))
        ->capture_default_str();
    app.add_option("--bucket-bytes", options.bucket_bytes, "Gradients reduced at once")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--json", arguments.json_path,
                   "Write the result as JSON to a file (\"-\": standard output)");
    app.add_flag("--list-primitives", arguments.list_primitives,
                 "Print the implementation of every step instead of training; fails if one is a "
                 "reference implementation");
    app.add_flag("-v,--verbose", arguments.verbosity, "Say more; twice: still more");
}

int print_primitives(const train::TrainOptions& options) {
    int references = 0;
    for (const auto& primitive : train::list_primitives(options)) {
        fmt::print("{:<32} {}\n", primitive.step, primitive.implementation);
        references += primitive.implementation.starts_with("ref");
    }
    if (references == 0) return 0;
    throw Error(ErrorKind::internal,
                fmt::format("{} steps use a slow reference implementation", references));
}

void write_json(const Arguments& arguments, const train::TrainReport& report,
                const train::World& world) {
    const Json object = {{"model", arguments.options.model},
                         {"accuracy", report.test_accuracy},
                         {"test_loss", report.test_loss},
                         {"train_loss", report.train_loss},
                         {"images_per_s", report.images_per_second},
                         {"ranks", world.size},
                         {"transport", world.transport},
                         {"threads", report.threads},
                         {"batch_size", arguments.options.batch_size},
                         {"epochs", report.epochs},
                         {"seconds", report.seconds},
                         {"parameters", report.parameters},
                         {"arena_bytes", report.arena_bytes}};
    if (arguments.json_path == "-") {
        fmt::print("{}\n", to_text(object));
    } else {
        write_file_atomic(arguments.json_path, to_text(object, 2) + "\n");
    }
}

/// Hours of training must not end at a place that could never be written.
void require_writable(const std::string& path, const char* option) {
    std::string place = absolute_path(path);
    if (!sys::stat_if_exists(AT_FDCWD, place)) {
        do place = parent_path(place);
        while (place.size() > 1 && !sys::stat_if_exists(AT_FDCWD, place));
    }
    if (::access(place.c_str(), W_OK) != 0)
        throw SysError(fmt::format("cannot write {}", slipway::quoted(path)), "access")
            .note(std::string("requested by: ") + option)
            .hint("choose a place that you may write to");
}

int run(const Arguments& arguments, std::unique_ptr<train::Communicator>& communicator) {
    if (arguments.list_primitives) return print_primitives(arguments.options);
    communicator = train::connect(arguments.connect);
    if (communicator->world().rank == 0) {
        if (!arguments.options.checkpoint.empty())
            require_writable(arguments.options.checkpoint, "--checkpoint");
        if (!arguments.json_path.empty() && arguments.json_path != "-")
            require_writable(arguments.json_path, "--json");
    }
    const train::TrainReport report = train::train(arguments.options, *communicator);
    const train::World& world = communicator->world();
    if (world.rank == 0) {
        if (!arguments.json_path.empty()) write_json(arguments, report, world);
        fmt::print("throughput {:.0f} images/s\n", report.images_per_second);
        fmt::print("test accuracy {:.4f}\n", report.test_accuracy);
        std::fflush(stdout);
    }
    communicator->finish();
    log::repeat_warnings();
    return 0;
}

void set_verbosity(int verbosity) {
    if (verbosity >= 2) {
        log::set_level(log::Level::debug);
    } else if (verbosity == 1) {
        log::set_level(log::Level::verbose);
    }
}

// OpenMP threads that wait for work spin for milliseconds by default; where other programs want the
// CPU too, that made a step up to seventy times slower. The library reads its settings when it is
// loaded, before main(), hence the second start.
void limit_spinning(char* argv[]) {
    if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr)
        return;
    ::setenv("GOMP_SPINCOUNT", "1000", 1);
    ::execv("/proc/self/exe", argv);  // if it fails, we go on as we are
}

}  // namespace

int main(int argc, char* argv[]) {
    sys::hold_standard_descriptors();
    limit_spinning(argv);
    log::set_program("slipway-train");
    CLI::App app("Train a neural network on one or many processes.", "slipway-train");
    Arguments arguments;
    set_up(app, arguments);
    std::unique_ptr<train::Communicator> communicator;
    std::optional<Error> failure;
    try {
        app.parse(argc, argv);
        arguments.connect.shared_memory = !arguments.no_shared_memory;
        set_verbosity(arguments.verbosity);
        return run(arguments, communicator);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        failure = Error(ErrorKind::usage, error.what()).hint("see slipway-train --help");
    } catch (const Error& error) {
        failure = error;
    } catch (const std::exception& error) {
        failure = Error(ErrorKind::internal, error.what());
    }
    std::string who = log::program() + ": ";
    if (communicator && communicator->world().size > 1)
        who += fmt::format("rank {}: ", communicator->world().rank);
    std::fputs((who + failure->render()).c_str(), stderr);
    std::fflush(stderr);
    if (communicator) communicator->abort(failure->exit_status());
    return failure->exit_status();
}
