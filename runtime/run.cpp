// `slipway run`: options, facts and image into a plan, and the plan into a process.
// Must not: decide (run_plan.cpp does) or mount (container.cpp does).
#include "slipway/runtime/run.hpp"

#include <optional>

#include "execute.hpp"
#include "host_facts.hpp"
#include "run_plan.hpp"
#include "run_spec.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"

namespace slipway::runtime {

namespace {

/// Open the store; an image that lies in the file system runs without one, too, as on a compute
/// node without a writable home directory. `place` then holds an empty one for a moment.
image::Store open_store(const std::string& directory, const image::ImageRef& ref,
                        std::optional<TempDir>& place) {
    try {
        return image::Store::open(directory);
    } catch (const Error&) {
        if (ref.kind != image::RefKind::directory && ref.kind != image::RefKind::squashfs &&
            ref.kind != image::RefKind::host)
            throw;
        place.emplace(temporary_directory());
        return image::Store::open(place->path());
    }
}

}  // namespace

RunPlan plan(const RunOptions& options) {
    const RunSpec spec = make_run_spec(options);
    const image::ImageRef ref = image::parse_image_ref(options.image);
    std::optional<TempDir> place;
    const image::RunnableImage image =
        image::make_runnable(ref, open_store(options.store, ref, place));
    return plan_run(spec, probe_host(spec), image);
}

int run(const RunOptions& options) { execute_plan(plan(options)); }

}  // namespace slipway::runtime
