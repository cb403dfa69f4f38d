// A Dockerfile as stages.
// Must not: expand variables or look at images.
#include "recipe.hpp"

#include <fmt/format.h>

#include "slipway/base/error.hpp"
#include "text.hpp"

namespace slipway::builder {

Error recipe_error(const std::string& subject, Place place, const std::string& message,
                   ErrorKind kind) {
    return Error(kind, fmt::format("{}, line {}: {}", subject, place.first_line, message));
}

Recipe read_recipe(std::string_view bytes, const std::string& subject) {
    const SyntaxTree tree = parse_syntax(bytes, subject);
    Recipe recipe;
    recipe.subject = subject;
    recipe.escape = tree.escape;
    recipe.warnings = tree.warnings;
    for (const SyntaxNode& node : tree.nodes) {
        Instruction instruction = type_instruction(node, subject);
        if (const auto* from = std::get_if<From>(&instruction.value)) {
            for (const Stage& stage : recipe.stages)
                if (!from->stage_name.empty() && stage.from.stage_name == from->stage_name)
                    throw recipe_error(
                        subject, node.place,
                        fmt::format("the stage name {} is taken by line {}",
                                    slipway::quoted(from->stage_name), stage.place.first_line));
            recipe.stages.push_back(
                {recipe.stages.size(), *from, instruction.original, instruction.place, {}});
        } else if (!recipe.stages.empty()) {
            recipe.stages.back().instructions.push_back(std::move(instruction));
        } else if (std::holds_alternative<Arg>(instruction.value)) {
            recipe.global_args.push_back(std::move(instruction));
        } else {
            throw recipe_error(subject, node.place,
                               instruction.keyword + " stands before the first FROM")
                .hint("begin with FROM and the name of a base image; only ARG may come before");
        }
    }
    if (recipe.stages.empty())
        throw Error(ErrorKind::invalid_recipe, fmt::format("{} holds no FROM", subject))
            .hint("begin with FROM and the name of a base image");
    return recipe;
}

Instruction read_trigger(const std::string& trigger, const std::string& base, Place place) {
    const std::string subject = fmt::format("ONBUILD of {}", slipway::quoted(base));
    const SyntaxTree tree = parse_syntax(trigger, subject);
    if (tree.nodes.size() != 1)
        throw Error(ErrorKind::invalid_recipe, subject + " holds more than one instruction");
    const std::string& keyword = tree.nodes[0].keyword;
    if (keyword == "from" || keyword == "onbuild" || keyword == "maintainer")
        throw Error(ErrorKind::invalid_recipe,
                    fmt::format("{}: {} is not allowed there", subject, to_upper(keyword)));
    Instruction instruction = type_instruction(tree.nodes[0], subject);
    instruction.place = place;
    return instruction;
}

}  // namespace slipway::builder
