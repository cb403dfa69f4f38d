// Every operator against finite differences; the whole loss is the function that is differentiated.
// And: no operator falls to a reference implementation.
// Must not: read data or use more than one process.
#include <cmath>

#include "catch.hpp"
#include "cpu/executor.hpp"
#include "models/zoo.hpp"
#include "random.hpp"

using namespace slipway::train;
using slipway::train::cpu::Executor;

namespace {

// A compiled model with random parameters, input and labels.
struct Probe {
    Executor executor;
    std::vector<float> values, gradients;
    int64_t batch;

    Probe(const Graph& graph, int64_t batch_size, int64_t valid)
        : executor(graph, {batch_size, true}),
          values(executor.arena_count()),
          gradients(executor.arena_count()),
          batch(batch_size) {
        executor.bind(values.data(), gradients.data());
        Random random(17, static_cast<uint64_t>(batch_size));
        for (size_t slot = 0; slot < executor.slots().size(); ++slot) {
            const auto& dims = executor.slots()[slot].dims;
            const auto fan_in = static_cast<float>(element_count(dims) / dims[0]);
            auto canonical = noise(random, dims, 1.5f / std::sqrt(fan_in));
            executor.write_parameter(values.data(), slot, canonical.data());
        }
        Shape input = graph.input();
        input.insert(input.begin(), batch);
        input_values = noise(random, input, 1.0f);
        for (auto& label : executor.loss().labels)
            label = static_cast<int32_t>(random.below(static_cast<uint64_t>(graph.output()[0])));
        executor.loss().valid = valid;
        executor.loss().scale = 1.0f / static_cast<float>(valid);
    }

    static std::vector<float> noise(Random& random, const Shape& shape, float size) {
        std::vector<float> result(static_cast<size_t>(element_count(shape)));
        for (float& value : result) value = static_cast<float>(2 * random.uniform() - 1) * size;
        return result;
    }

    double loss() {
        std::copy(input_values.begin(), input_values.end(), executor.input());
        executor.forward();
        return executor.loss().loss_sum * executor.loss().scale;
    }

    std::vector<float> input_values;
};

constexpr double kStep = 1e-2;

// (L(x + hd) − L(x − hd)) / 2h for the direction d, x being `target`.
double slope(Probe& probe, std::vector<float>& target, const std::vector<float>& direction) {
    const std::vector<float> before = target;
    const auto loss_at = [&](double step) {
        for (size_t i = 0; i < target.size(); ++i)
            target[i] = before[i] + static_cast<float>(step * direction[i]);
        return probe.loss();
    };
    const double above = loss_at(kStep), below = loss_at(-kStep);
    target = before;
    return (above - below) / (2 * kStep);
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
    return sum;
}

// Of length one: half along the gradient, so that there is a slope to see, half at random, so that
// a part of the gradient that is wrong shows. Such a step moves each number too little to jump
// over the kinks of ReLU and pooling often.
std::vector<float> mixed_direction(const std::vector<float>& gradient,
                                   const std::vector<float>& random) {
    const double gradient_size = std::sqrt(dot(gradient, gradient)) + 1e-30;
    const double random_size = std::sqrt(dot(random, random)) + 1e-30;
    std::vector<float> direction(gradient.size());
    for (size_t i = 0; i < gradient.size(); ++i)
        direction[i] = static_cast<float>((gradient[i] / gradient_size + random[i] / random_size) *
                                          std::sqrt(0.5));
    return direction;
}

void check_slope(Probe& probe, std::vector<float>& target, const std::vector<float>& gradient,
                 const std::vector<float>& random, const std::string& what) {
    const auto direction = mixed_direction(gradient, random);
    const double analytic = dot(direction, gradient);
    const double numeric = slope(probe, target, direction);
    INFO(what << ": analytic " << analytic << ", numeric " << numeric);
    CHECK(std::abs(analytic) > 1e-3);  // zero everywhere would prove nothing
    CHECK(std::abs(analytic - numeric) <= 1e-3 + 0.02 * std::abs(numeric));
}

void check_gradients(const Graph& graph, int64_t batch, int64_t valid) {
    Probe probe(graph, batch, valid);
    probe.loss();
    size_t complete = 0;
    probe.executor.backward([&](size_t end) {
        CHECK(end > complete);
        complete = end;
    });
    CHECK(complete == probe.executor.arena_count());
    const std::vector<float> input_gradient(
        probe.executor.input_gradient(),
        probe.executor.input_gradient() + probe.input_values.size());
    const std::vector<float> gradients = probe.gradients;
    Random random(5, 5);
    for (int round = 0; round < 3; ++round) {
        const auto noise =
            Probe::noise(random, {static_cast<int64_t>(probe.input_values.size())}, 1);
        check_slope(probe, probe.input_values, input_gradient, noise, "input");
        for (size_t slot = 0; slot < probe.executor.slots().size(); ++slot) {
            const auto& place = probe.executor.slots()[slot];
            const auto part = Probe::noise(random, place.dims, 1);
            std::vector<float> own(gradients.size(), 0.0f), native(gradients.size(), 0.0f);
            std::copy_n(gradients.begin() + static_cast<ptrdiff_t>(place.offset), place.count,
                        own.begin() + static_cast<ptrdiff_t>(place.offset));
            probe.executor.write_parameter(native.data(), slot, part.data());
            check_slope(probe, probe.values, own, native, place.name);
        }
    }
}

}  // namespace

TEST_CASE("gradient: inner product") {
    Graph graph("g", {1, 3, 5});
    graph.inner_product("fc", 4);
    check_gradients(graph, 6, 6);
}

TEST_CASE("gradient: inner product after inner product, with ReLU") {
    Graph graph("g", {1, 4, 4});
    graph.inner_product("a", 33).relu("r").inner_product("b", 5);
    check_gradients(graph, 7, 7);
}

TEST_CASE("gradient: convolution, with padding and stride") {
    for (int64_t kernel : {1, 3, 5})
        for (int64_t stride : {1, 2}) {
            Graph graph("g", {3, 9, 8});
            graph.convolution("conv", 20, kernel, kernel / 2, stride).inner_product("fc", 4);
            check_gradients(graph, 4, 4);
        }
}

TEST_CASE("gradient: max pooling, even and with a rest") {
    for (int64_t extent : {8, 9}) {
        Graph graph("g", {2, extent, extent});
        graph.convolution("conv", 17, 3, 1).max_pool("pool", 2, 2).inner_product("fc", 4);
        check_gradients(graph, 3, 3);
    }
}

TEST_CASE("gradient: whole models, with padding rows in the batch") {
    check_gradients(build_model("lenet", {1, 8, 8}, 10), 8, 5);
    check_gradients(build_model("mlp", {1, 8, 8}, 10), 8, 5);
}

TEST_CASE("padding rows have no loss and no gradient") {
    const Graph graph = build_model("mlp", {1, 4, 4}, 3);
    Probe probe(graph, 8, 5);
    const double before = probe.loss();
    probe.executor.backward([](size_t) {});
    const auto gradients = probe.gradients;
    const size_t image = probe.input_values.size() / 8;
    for (size_t i = 5 * image; i < 8 * image; ++i) probe.input_values[i] = 7;
    CHECK(probe.loss() == before);
    probe.executor.backward([](size_t) {});
    for (size_t i = 0; i < gradients.size(); ++i)
        REQUIRE(probe.gradients[i] == Approx(gradients[i]).margin(1e-6));
}

TEST_CASE("no operator falls to a reference implementation") {
    for (const char* name : {"lenet", "mlp"})
        for (int64_t extent : {8, 28})
            for (int64_t batch : {1, 8, 16, 29, 32, 64, 128}) {
                const Graph graph = build_model(name, {1, extent, extent}, 10);
                for (const auto& primitive : Executor(graph, {batch, false}).primitives()) {
                    INFO(name << " " << extent << " batch " << batch << ": " << primitive.step
                              << " is " << primitive.implementation);
                    CHECK(primitive.implementation.find("ref") == std::string::npos);
                }
            }
}

TEST_CASE("planned memory is less than the sum of what is planned") {
    const Graph graph = build_model("lenet", {1, 28, 28}, 10);
    Executor executor(graph, {64, false});
    size_t activations = 0;
    for (const auto& node : graph.nodes())
        activations += 64 * 4 * static_cast<size_t>(element_count(node.output));
    CHECK(executor.planned_bytes() < 2 * activations);
    CHECK(executor.planned_bytes() > 0);
}
