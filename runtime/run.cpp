// `slipway run`: options, facts and image into a plan, and the plan into a process.
// Must not: decide (run_plan.cpp does) or mount (container.cpp does).
#include "slipway/runtime/run.hpp"

#include "execute.hpp"
#include "host_facts.hpp"
#include "policy.hpp"
#include "run_plan.hpp"
#include "run_spec.hpp"

namespace slipway::runtime {

RunPlan plan(const RunOptions& options) {
    const RunSpec spec = make_run_spec(options);
    const image::ImageRef ref = image::parse_image_ref(options.image);
    const image::RunnableImage image = image::make_runnable(ref, options.store);
    enforce_site_policy(ref.kind, image, spec);
    return plan_run(spec, probe_host(spec), image);
}

int run(const RunOptions& options) { execute_plan(plan(options)); }

}  // namespace slipway::runtime
