// A Dockerfile as stages: what stands before the first FROM, and one list of instructions a stage.
#pragma once

#include <string>
#include <vector>

#include "instruction.hpp"

namespace slipway::builder {

struct Stage {
    size_t index = 0;
    From from;
    std::string original;  ///< the FROM line
    Place place;
    std::vector<Instruction> instructions;
};

struct Recipe {
    std::string subject;  ///< the file's name in messages
    char escape = '\\';
    std::vector<Instruction> global_args;  ///< ARG before the first FROM
    std::vector<Stage> stages;
    std::vector<std::string> warnings;
};

/// Read a whole Dockerfile. Pure. Throws: Error(invalid_recipe) with the line.
Recipe read_recipe(std::string_view bytes, const std::string& subject);

/// The trigger of a base image's ONBUILD as an instruction; its place is the FROM's.
Instruction read_trigger(const std::string& trigger, const std::string& base, Place place);

/// "Dockerfile, line 7: " before a message.
Error recipe_error(const std::string& subject, Place place, const std::string& message,
                   ErrorKind kind = ErrorKind::invalid_recipe);

}  // namespace slipway::builder
