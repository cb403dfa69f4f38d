// Whole trainings in one process: they learn, repeat themselves and go on where they stopped.
// Must not: need a launcher.
#include "catch.hpp"
#include "checkpoint.hpp"
#include "comm/single.hpp"
#include "digits.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/train/train.hpp"

using namespace slipway;
using namespace slipway::train;

namespace {

TrainReport run(const TrainOptions& options) {
    log::set_level(log::Level::warning);
    auto communicator = make_single();
    return train::train(options, *communicator);
}

TrainOptions options_for(const DigitFiles& files, const std::string& model) {
    TrainOptions options;
    options.model = model;
    options.data = files.path();
    options.epochs = 6;
    options.batch_size = 32;
    options.threads = 1;
    return options;
}

}  // namespace

TEST_CASE("both models learn shapes they have not seen") {
    for (int extent : {8, 28})
        for (const char* model : {"lenet", "mlp"}) {
            DigitFiles files(300, 61, extent);
            TrainOptions options = options_for(files, model);
            options.augment = false;
            const TrainReport report = run(options);
            INFO(model << " on " << extent);
            CHECK(report.test_accuracy > 0.98);
            CHECK(report.epochs == 6);
            CHECK(report.images_per_second > 0);
        }
}

TEST_CASE("an interrupted training goes on to the very same bits") {
    DigitFiles files(150, 20, 8);
    TempDir place(temporary_directory());
    TrainOptions options = options_for(files, "lenet");
    options.checkpoint = place.path() + "/whole";
    run(options);
    options.checkpoint = place.path() + "/parts";
    options.resume = true;  // nothing there yet: from the beginning
    options.stop_after = 2;
    CHECK(run(options).epochs == 2);
    options.stop_after = 0;
    CHECK(run(options).epochs == 6);
    CHECK(read_file(place.path() + "/whole") == read_file(place.path() + "/parts"));
    CHECK(read_checkpoint_if_exists(place.path() + "/whole")->epoch == 6);
}

TEST_CASE("a checkpoint of another model or of garbage is refused and kept") {
    DigitFiles files(60, 20, 8);
    TempDir place(temporary_directory());
    TrainOptions options = options_for(files, "mlp");
    options.epochs = 1;
    options.checkpoint = place.path() + "/c";
    run(options);
    options.model = "lenet";
    options.resume = true;
    CHECK_THROWS_WITH(run(options), ContainsSubstring("its model is mlp, not lenet"));
    write_file_atomic(options.checkpoint, "not a checkpoint");
    CHECK_THROWS_WITH(run(options), ContainsSubstring("no checkpoint of slipway-train"));
    CHECK(read_file(options.checkpoint) == "not a checkpoint");
}

TEST_CASE("what this build does not do is said") {
    DigitFiles files(8, 4, 8);
    for (const auto& [device, strategy, text] :
         std::vector<std::tuple<std::string, std::string, std::string>>{
             {"cuda", "allreduce", "no CUDA part"},
             {"tpu", "allreduce", "no device \"tpu\""},
             {"cpu", "easgd", "strategy \"easgd\""}}) {
        TrainOptions options = options_for(files, "mlp");
        options.device = device;
        options.strategy = strategy;
        CHECK_THROWS_WITH(run(options), ContainsSubstring(text));
    }
}
