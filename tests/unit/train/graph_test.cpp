// Shapes of the built-in models.
// Must not: compile them.
#include "graph.hpp"

#include "catch.hpp"
#include "models/zoo.hpp"
#include "slipway/base/error.hpp"

using namespace slipway;
using namespace slipway::train;

TEST_CASE("LeNet on 28×28 has the shapes and the parameters it is known for") {
    const Graph graph = build_model("lenet", {1, 28, 28}, 10);
    CHECK(graph.nodes()[0].output == Shape{20, 24, 24});
    CHECK(graph.nodes()[4].output == Shape{50, 4, 4});
    CHECK(graph.output() == Shape{10});
    int64_t total = 0;
    for (const auto& spec : graph.parameters()) total += element_count(spec.dims);
    CHECK(total == 431080);
    CHECK(multiply_adds(graph) == 576 * 25 * 20 + 64 * 500 * 50 + 800 * 500 + 500 * 10);
}

TEST_CASE("both models take small, large and oblong images") {
    for (const char* name : {"lenet", "mlp"})
        for (const Shape& image :
             {Shape{1, 4, 4}, Shape{1, 8, 8}, Shape{1, 16, 16}, Shape{3, 32, 20}})
            CHECK(build_model(name, image, 7).output() == Shape{7});
}

TEST_CASE("an image too small for LeNet is an error with a remedy") {
    try {
        build_model("lenet", {1, 1, 9}, 10);
        FAIL("accepted");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::invalid_data);
        CHECK_THAT(error.hint(), ContainsSubstring("mlp"));
    }
}

TEST_CASE("an unknown model names those there are") {
    for (const char* name : {"resnet999", "./model.json"}) {
        try {
            build_model(name, {1, 8, 8}, 10);
            FAIL("accepted");
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::unsupported);
            CHECK_THAT(error.hint(), ContainsSubstring("lenet, mlp"));
        }
    }
}
