// Chooses the local disk for staged files.
// Must not: call the system, or copy.
#include "plan_stage.hpp"

#include <fmt/core.h>

#include "slipway/base/digest.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/progress.hpp"

namespace slipway::runtime {

namespace {

using Kind = MountStep::Kind;

/// What a disk keeps free beside our copies: other programs of the job write there, too.
constexpr uint64_t kSpareBytes = 16 << 20;

/// A file to stage, with the mounts that use it.
struct Wanted {
    std::string source;
    std::string name;
    uint64_t size_bytes = 0;
};

std::string staged_name(const std::string& source, const FileFacts& file) {
    return sha256(source + '\n' + file.identity).hex().substr(0, 16) + '-' +
           std::string(base_name(source));
}

std::vector<Wanted> wanted_files(const MountSpec& spec, const HostFacts& facts, RunPlan& plan) {
    std::vector<Wanted> wanted;
    for (const auto& step : plan.mounts) {
        if (step.kind != Kind::image_squashfs && step.kind != Kind::data_squashfs) continue;
        const auto file = facts.files.find(step.source);
        if (file == facts.files.end()) continue;
        if (*spec.stage == "auto" && file->second.shared_on.empty()) continue;
        bool known = false;
        for (const auto& other : wanted) known = known || other.source == step.source;
        if (!known)
            wanted.push_back(
                {step.source, staged_name(step.source, file->second), file->second.size_bytes});
    }
    return wanted;
}

uint64_t needed_bytes(const std::vector<Wanted>& wanted, const StagePlace& place) {
    uint64_t needed = 0;
    for (const auto& file : wanted)
        if (place.staged.count(file.name) == 0) needed += file.size_bytes;
    return needed == 0 ? 0 : needed + kSpareBytes;
}

const StagePlace& choose_place(const std::vector<Wanted>& wanted,
                               const std::vector<StagePlace>& places) {
    Error error(ErrorKind::no_space, "no local disk can take the files to stage");
    for (const auto& place : places) {
        const uint64_t needed = needed_bytes(wanted, place);
        std::string problem = place.problem;
        if (problem.empty() && needed > place.free_bytes)
            problem = fmt::format("has {} free, {} are needed", human_bytes(place.free_bytes),
                                  human_bytes(needed));
        if (problem.empty()) return place;
        error.note(fmt::format("{} ({}) {}", slipway::quoted(place.path), place.why, problem));
    }
    throw error.note("requested by: --stage")
        .hint(
            "name a directory on a local disk with --stage=DIR, free space there, or leave "
            "--stage out");
}

}  // namespace

void plan_stage(const MountSpec& spec, const HostFacts& facts, const image::RunnableImage& image,
                RunPlan& plan) {
    if (!spec.stage) return;
    if (image.kind == image::RunnableImage::Kind::directory)
        plan.warnings.push_back(fmt::format(
            "the directory {} is not staged, only files are: slipway convert DIRECTORY FILE.sqfs",
            slipway::quoted(image.path)));
    const auto wanted = wanted_files(spec, facts, plan);
    if (wanted.empty()) return;
    const StagePlace& place = choose_place(wanted, facts.stage_places);
    for (const auto& file : wanted) {
        const std::string target = join_path(stage_directory(place.path, facts.uid), file.name);
        plan.stages.push_back({file.source, target, file.size_bytes,
                               place.why == "--stage" ? place.why : "--stage, " + place.why});
        for (auto& step : plan.mounts)
            if (step.source == file.source &&
                (step.kind == Kind::image_squashfs || step.kind == Kind::data_squashfs))
                step.source = target;
    }
}

}  // namespace slipway::runtime
