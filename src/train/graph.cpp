// Builds the chain of operators and infers every shape.
// Must not: know oneDNN, memory or data.
#include "graph.hpp"

#include <fmt/core.h>

#include <functional>
#include <numeric>

#include "slipway/base/error.hpp"

namespace slipway::train {

int64_t element_count(const Shape& shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string shape_text(const Shape& shape) {
    std::string text;
    for (int64_t extent : shape) text += (text.empty() ? "" : "×") + std::to_string(extent);
    return text;
}

Graph::Graph(std::string name, Shape input) : name_(std::move(name)), input_(std::move(input)) {}

Graph& Graph::add(Node node) {
    for (int64_t extent : node.output) {
        if (extent > 0) continue;
        throw Error(ErrorKind::invalid_data,
                    fmt::format("layer {} of model {} leaves nothing of its input ({})", node.name,
                                name_, shape_text(node.input)))
            .hint("use larger images, or --model mlp, which takes any size");
    }
    nodes_.push_back(std::move(node));
    return *this;
}

namespace {

int64_t windows(int64_t extent, int64_t kernel, int64_t stride, int64_t padding) {
    int64_t room = extent + 2 * padding - kernel;
    return room < 0 ? 0 : room / stride + 1;
}

void require_planes(const Shape& input, const std::string& layer) {
    if (input.size() != 3)
        throw Error(ErrorKind::internal, "layer " + layer + " needs channels, height and width");
}

}  // namespace

Graph& Graph::convolution(const std::string& name, int64_t channels, int64_t kernel,
                          int64_t padding, int64_t stride) {
    const Shape in = output();
    require_planes(in, name);
    Node node{OpKind::convolution, name, channels, kernel, stride, padding, in, {}};
    node.output = {channels, windows(in[1], kernel, stride, padding),
                   windows(in[2], kernel, stride, padding)};
    return add(std::move(node));
}

Graph& Graph::max_pool(const std::string& name, int64_t kernel, int64_t stride) {
    const Shape in = output();
    require_planes(in, name);
    Node node{OpKind::max_pool, name, in[0], kernel, stride, 0, in, {}};
    node.output = {in[0], windows(in[1], kernel, stride, 0), windows(in[2], kernel, stride, 0)};
    return add(std::move(node));
}

Graph& Graph::relu(const std::string& name) {
    return add(Node{OpKind::relu, name, 0, 0, 1, 0, output(), output()});
}

Graph& Graph::inner_product(const std::string& name, int64_t outputs) {
    return add(Node{OpKind::inner_product, name, outputs, 0, 1, 0, output(), {outputs}});
}

ParameterSpec weight_of(const Node& node) {
    ParameterSpec spec{node.name + ".weight", {node.outputs}, 0};
    if (node.kind == OpKind::convolution) {
        spec.dims.insert(spec.dims.end(), {node.input[0], node.kernel, node.kernel});
    } else {
        spec.dims.insert(spec.dims.end(), node.input.begin(), node.input.end());
    }
    spec.fan_in = element_count(spec.dims) / node.outputs;
    return spec;
}

ParameterSpec bias_of(const Node& node) { return {node.name + ".bias", {node.outputs}, 0}; }

std::vector<ParameterSpec> Graph::parameters() const {
    std::vector<ParameterSpec> specs;
    for (const Node& node : nodes_) {
        if (node.kind != OpKind::convolution && node.kind != OpKind::inner_product) continue;
        specs.push_back(weight_of(node));
        specs.push_back(bias_of(node));
    }
    return specs;
}

int64_t multiply_adds(const Graph& graph) {
    int64_t total = 0;
    for (const Node& node : graph.nodes()) {
        if (node.kind == OpKind::convolution || node.kind == OpKind::inner_product)
            total += element_count(node.output) * weight_of(node).fan_in;
    }
    return total;
}

}  // namespace slipway::train
