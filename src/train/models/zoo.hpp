// The built-in models.
#pragma once

#include <string>

#include "graph.hpp"

namespace slipway::train {

/// Build the named model for images of this shape.
/// Throws: Error(unsupported) for a name that is not built in, naming those that are.
Graph build_model(const std::string& name, const Shape& image, int64_t classes);

}  // namespace slipway::train
