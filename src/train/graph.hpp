// A static model: operators in order, every shape known before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slipway::train {

/// Without the batch: {channels, height, width} or {features}.
using Shape = std::vector<int64_t>;

int64_t element_count(const Shape& shape);
/// "20×24×24".
std::string shape_text(const Shape& shape);

enum class OpKind { convolution, max_pool, relu, inner_product };

/// One operator of the chain; its input is its predecessor's output.
struct Node {
    OpKind kind;
    std::string name;
    int64_t outputs = 0;  ///< convolution: channels; inner product: features
    int64_t kernel = 0;
    int64_t stride = 1;
    int64_t padding = 0;
    Shape input;
    Shape output;
};

/// A learned tensor in its canonical layout (OIHW, OI or O).
struct ParameterSpec {
    std::string name;
    std::vector<int64_t> dims;
    int64_t fan_in = 0;  ///< 0 for a bias, which starts at zero
};

/// A chain of operators whose last output is the logits of a classification.
class Graph {
 public:
    Graph(std::string name, Shape input);
    /// Each infers its output's shape. Throws: Error(invalid_data) when nothing would be left.
    Graph& convolution(const std::string& name, int64_t channels, int64_t kernel, int64_t padding,
                       int64_t stride = 1);
    Graph& max_pool(const std::string& name, int64_t kernel, int64_t stride);
    Graph& relu(const std::string& name);
    Graph& inner_product(const std::string& name, int64_t outputs);

    const std::string& name() const { return name_; }
    const Shape& input() const { return input_; }
    const Shape& output() const { return nodes_.empty() ? input_ : nodes_.back().output; }
    const std::vector<Node>& nodes() const { return nodes_; }
    /// In the order of the operators, weight before bias.
    std::vector<ParameterSpec> parameters() const;

 private:
    Graph& add(Node node);
    std::string name_;
    Shape input_;
    std::vector<Node> nodes_;
};

/// Multiply-adds of one image's forward pass.
int64_t multiply_adds(const Graph& graph);

/// The weight of an operator that has one.
ParameterSpec weight_of(const Node& node);
ParameterSpec bias_of(const Node& node);

}  // namespace slipway::train
