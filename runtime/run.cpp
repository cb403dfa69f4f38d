// `slipway run`: options, facts and image into a plan, and the plan into a process.
// Must not: decide (run_plan.cpp does) or mount (container.cpp does).
#include "slipway/runtime/run.hpp"

#include "execute.hpp"
#include "host_facts.hpp"
#include "policy.hpp"
#include "run_plan.hpp"
#include "run_spec.hpp"
#include "site_mounts.hpp"
#include "stage.hpp"

namespace slipway::runtime {

RunPlan plan(const RunOptions& options) {
    RunSpec spec = make_run_spec(options);
    const image::ImageRef ref = image::parse_image_ref(options.image);
    const image::RunnableImage image = image::make_runnable(ref, options.store);
    enforce_site_policy(ref.kind, image, spec);
    if (options.site_mounts && image.kind != image::RunnableImage::Kind::host) {
        auto binds = read_site_mounts();
        spec.mounts.binds.insert(spec.mounts.binds.begin(), binds.begin(), binds.end());
    }
    HostFacts facts = probe_host(spec);
    if (spec.mounts.stage && image.kind == image::RunnableImage::Kind::squashfs)
        if (const auto file = probe_file(image.path)) facts.files.emplace(image.path, *file);
    ImageAccounts accounts;
    if (user_to_look_up(spec, facts.launcher, image.config)) accounts = read_image_accounts(image);
    return plan_run(spec, facts, image, accounts);
}

int run(const RunOptions& options) {
    const RunPlan decided = plan(options);
    stage_files(decided);
    execute_plan(decided);
}

}  // namespace slipway::runtime
