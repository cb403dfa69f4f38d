// `slipway run`: options, facts and image into a plan, and the plan into a process.
// Must not: decide (run_plan.cpp does) or mount (container.cpp does).
#include "slipway/runtime/run.hpp"

#include <fcntl.h>

#include <optional>

#include "execute.hpp"
#include "host_facts.hpp"
#include "policy.hpp"
#include "run_plan.hpp"
#include "run_spec.hpp"
#include "site_mounts.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/image/artifact.hpp"
#include "slipway/runtime/trust.hpp"
#include "stage.hpp"

namespace slipway::runtime {

namespace {

/// The keys that --verify goes by, if it was asked for.
std::optional<image::TrustedKeys> keys_of(const RunOptions& options) {
    if (!options.verify) return std::nullopt;
    return trusted_keys(*options.verify == "auto" ? std::vector<std::string>{}
                                                  : std::vector<std::string>{*options.verify});
}

/// Every data pack must be signed as the image must: what is read of it is checked against its
/// seal. What is no file is told by the plan.
void verify_packs(const RunSpec& spec, const image::TrustedKeys& keys, HostFacts& facts) {
    for (const auto& pack : spec.mounts.data) {
        const auto file = facts.files.find(pack.source);
        if (file == facts.files.end() || !file->second.regular) continue;
        try {
            const UniqueFd fd = sys::open(pack.source, O_RDONLY | O_NONBLOCK);
            file->second.seal = image::verify_seal(fd.get(), pack.source, keys).digest.text();
        } catch (Error& error) {
            error.note("requested by: " + pack.origin + ", and --verify");
            throw;
        }
    }
}

/// The image's runnable form; `site_seal` is told where the site asks for signatures of its own
/// choice.
image::RunnableImage find_image(const image::ImageRef& ref, const RunOptions& options,
                                const image::TrustedKeys* keys, Digest& site_seal) {
    auto found = find_signed_for_site(ref, options.store);
    if (found) site_seal = found->seal;
    return found && keys == nullptr ? std::move(*found)
                                    : image::make_runnable(ref, options.store, keys);
}

/// The site wants the image verified, the user did not ask for it: its configuration was read as it
/// lies in the file.
image::RunnableImage reread_against(const Digest& seal, image::RunnableImage image) {
    image.squashfs = std::make_shared<image::SquashfsImage>(sys::open(image.path, O_RDONLY),
                                                            image.path, image.offset_bytes, seal);
    image.identity = image::identity_of(sys::fstat(image.squashfs->fd(), image.path));
    image.config = image.squashfs->config().value_or(image::ImageConfig());
    image.seal = seal;
    return image;
}

bool is_file(const BindSpec& data) {
    const std::string& name = data.named;
    return name.starts_with('/') || name.starts_with("./") || name.starts_with("../") ||
           name.ends_with(".sqfs") || name.ends_with(".squashfs") ||
           sys::stat_if_exists(AT_FDCWD, data.source);
}

/// Packs that were pulled, or are now, lie in the store.
void find_packs(RunSpec& spec, const std::string& store) {
    for (auto& pack : spec.mounts.data) {
        if (is_file(pack)) continue;
        try {
            auto stored = image::find_pack(pack.named, store);
            pack.source = std::move(stored.path);
            pack.hold = std::move(stored.hold);
        } catch (Error& error) {
            if (!pack.optional || error.kind() != ErrorKind::not_found) {
                error.note("requested by: " + pack.origin);
                throw;
            }
            log::verbose("{}", error.message());
        }
    }
}

/// A pack's compressor may need the full program, which can begin only before anything else has.
/// What else is wrong with a pack is told where it is mounted.
void look_at_packs(const RunSpec& spec) {
    for (const auto& pack : spec.mounts.data) try {
            const image::SquashfsImage opened(sys::open(pack.source, O_RDONLY | O_NONBLOCK),
                                              pack.source);
        } catch (const Error& error) {
            log::verbose("{}", error.message());
        }
}

}  // namespace

RunPlan plan(const RunOptions& options) {
    RunSpec spec = make_run_spec(options);
    const image::ImageRef ref = image::parse_image_ref(options.image);
    const auto keys = keys_of(options);
    Digest site_seal;
    image::RunnableImage image = find_image(ref, options, keys ? &*keys : nullptr, site_seal);
    const Digest seal = enforce_site_policy(image, spec, site_seal);
    if (!seal.empty() && image.seal.empty()) image = reread_against(seal, image);
    if (options.site_mounts && image.kind != image::RunnableImage::Kind::host) {
        auto binds = read_site_mounts();
        spec.mounts.binds.insert(spec.mounts.binds.begin(), binds.begin(), binds.end());
    }
    find_packs(spec, options.store);
    look_at_packs(spec);
    HostFacts facts = probe_host(spec);
    if (keys) verify_packs(spec, *keys, facts);
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
