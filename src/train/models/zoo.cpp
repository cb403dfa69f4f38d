// The built-in models: LeNet and a multi-layer perceptron, fitted to the images they get.
// Must not: know oneDNN or read data.
#include "models/zoo.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "slipway/base/error.hpp"
#include "slipway/train/train.hpp"

namespace slipway::train {

namespace {

// LeNet as Caffe made it known (20 and 50 channels, 500 hidden units). Its 5×5 kernels without
// padding are made for 28×28 images: two such convolutions leave nothing of an 8×8 one. Images
// below 16 pixels therefore get 3×3 kernels with padding, which is cheaper than enlarging the image
// and as exact. ReLU comes after pooling: the result is the same, the work a quarter.
Graph lenet(const Shape& image, int64_t classes) {
    const bool small = std::min(image[1], image[2]) < 16;
    const int64_t kernel = small ? 3 : 5;
    const int64_t padding = small ? 1 : 0;
    Graph graph("lenet", image);
    graph.convolution("conv1", 20, kernel, padding).max_pool("pool1", 2, 2).relu("relu1");
    graph.convolution("conv2", 50, kernel, padding).max_pool("pool2", 2, 2).relu("relu2");
    graph.inner_product("fc1", 500).relu("relu3").inner_product("fc2", classes);
    return graph;
}

Graph mlp(const Shape& image, int64_t classes) {
    Graph graph("mlp", image);
    graph.inner_product("fc1", 256).relu("relu1");
    graph.inner_product("fc2", 128).relu("relu2");
    graph.inner_product("fc3", classes);
    return graph;
}

}  // namespace

std::vector<std::string> model_names() { return {"lenet", "mlp"}; }

Graph build_model(const std::string& name, const Shape& image, int64_t classes) {
    if (name == "lenet") return lenet(image, classes);
    if (name == "mlp") return mlp(image, classes);
    const bool file = name.find_first_of("/.") != std::string::npos;
    std::string known;
    for (const std::string& model : model_names()) known += (known.empty() ? "" : ", ") + model;
    throw Error(ErrorKind::unsupported,
                file ? fmt::format("cannot read model file {}: model files are not supported yet",
                                   slipway::quoted(name))
                     : fmt::format("there is no model {}", slipway::quoted(name)))
        .hint("use one of the built-in models: " + known);
}

}  // namespace slipway::train
