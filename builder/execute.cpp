// Carries out a plan: each step from the cache or for real.
// Must not: decide anything that the plan could have decided.
#include "execute.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "copy_items.hpp"
#include "copy_layer.hpp"
#include "image_tree.hpp"
#include "run_layer.hpp"
#include "slipway/base/error.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/log.hpp"
#include "slipway/base/sys.hpp"
#include "text.hpp"

namespace slipway::builder {

namespace {

std::string rfc3339(int64_t seconds) {
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

/// What a step gave, and the layers up to it.
struct Done {
    std::vector<image::Layer> layers;
    std::string created;
    std::vector<image::HistoryEntry> history;
};

class Executor {
 public:
    Executor(image::Store& store, const ExecuteInput& input)
        : store_(store), input_(input), plan_(input.plan), cache_(store) {
        times_.clamp = plan_.source_date_epoch;
        times_.now = times_.clamp.value_or(std::time(nullptr));
    }

    ExecuteResult run() {
        for (const Step& step : plan_.steps) {
            try {
                done_.push_back(do_step(step));
            } catch (const Error& error) {
                throw with_place(error, step);
            }
        }
        const Done& last = done_[plan_.target];
        result_.config = plan_.steps[plan_.target].config;
        result_.config.created = last.created.empty() ? rfc3339(times_.now) : last.created;
        result_.config.history = last.history;
        result_.config.diff_ids.clear();
        for (const image::Layer& layer : last.layers)
            result_.config.diff_ids.push_back(layer.diff_id);
        result_.layers = last.layers;
        result_.steps = plan_.steps.size();
        return std::move(result_);
    }

 private:
    Error with_place(const Error& error, const Step& step) const {
        if (step.place.first_line == 0 || error.message().find(", line ") != std::string::npos)
            return error;
        Error placed = error;
        return placed.note(fmt::format("requested by: {}, line {}: {}", input_.subject,
                                       step.place.first_line, summary(step.text)));
    }

    static std::string summary(const std::string& text) {
        constexpr size_t kWidth = 100;
        std::string line = text.substr(0, text.find('\n'));
        if (line.size() <= kWidth) return line;
        size_t end = kWidth;
        while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80) --end;
        line.resize(end);
        return line.append(" ...");
    }

    void announce(const Step& step, bool cached) {
        if (!log::enabled(log::Level::info)) return;
        const std::string line = fmt::format("STEP {}/{}: {}{}\n", step.id + 1, plan_.steps.size(),
                                             summary(step.text), cached ? " (CACHED)" : "");
        sys::write_all(STDERR_FILENO, line.data(), line.size(), "standard error");
    }

    Done do_step(const Step& step) {
        if (step.kind == Step::Kind::base) return do_base(step);
        Done done = done_[*step.parent];
        image::HistoryEntry history;
        history.created_by = step.text;
        history.empty_layer = true;
        if (!step.makes_layer()) {
            announce(step, false);
            history.created = done.created;  // never "now": a cached build gives the same image
            done.history.push_back(history);
            return done;
        }
        StepResult result = layer_of(step, done);
        done.created = history.created = result.created;
        if (result.layer) {
            done.layers.push_back(*result.layer);
            history.empty_layer = false;
        }
        done.history.push_back(history);
        return done;
    }

    StepResult layer_of(const Step& step, const Done& parent) {
        if (input_.use_cache) {
            if (auto cached = cache_.find(step.key)) {
                announce(step, true);
                ++result_.cached_steps;
                return *cached;
            }
        }
        announce(step, false);
        StepResult result;
        result.layer = make_layer(step, parent);
        result.created = rfc3339(times_.now);
        if (keys_hold_ && !is_still_as_planned(step)) {
            log::warning(
                "the context changed while it was built (line {}: {}): this step and those after "
                "it are not kept in the cache; build again for an image of one state",
                step.place.first_line, summary(step.text));
            keys_hold_ = false;
        }
        if (keys_hold_) cache_.save(step.key, step.text, result);
        return result;
    }

    /// A COPY's key was made of what the context held when it was planned; what a user wrote there
    /// since must not be found under that key. Costs a stat a file: digests are remembered.
    bool is_still_as_planned(const Step& step) const {
        const CopyAction& copy = step.copy;
        if (step.kind != Step::Kind::copy || copy.from_step || copy.sources.empty()) return true;
        return items_digest(input_.context, collect_items(input_.context, copy, true)) ==
               copy.content;
    }

    std::optional<image::Layer> make_layer(const Step& step, const Done& parent) {
        switch (step.kind) {
            case Step::Kind::run:
                return do_run(step, parent);
            case Step::Kind::copy:
                return do_copy(step, parent);
            case Step::Kind::workdir:
                return write_directory_layer(store_, tree_of(parent.layers), step.directory,
                                             step.config.user, times_);
            case Step::Kind::preload:
                return do_preload(step, parent);
            default:
                return std::nullopt;
        }
    }

    // --- images ---

    Done do_base(const Step& step) {
        announce(step, false);
        Done done;
        if (step.image.empty()) return done;
        const image::OciImage& base = input_.bases.at(step.image);
        for (const image::Layer& layer : base.layers) bring_blob(base, layer);
        done.layers = base.layers;
        done.created = base.config.created;
        done.history = base.config.history;
        return done;
    }

    /// The layer's blob has to be in the store, from wherever the base image came.
    void bring_blob(const image::OciImage& base, const image::Layer& layer) {
        if (store_.has_blob(layer.digest)) return;
        store_.add_layer([&](int fd) {
            const UniqueFd blob = base.blobs->open_blob(layer.digest);
            Sha256 hash;
            std::vector<char> buffer(1 << 20);
            const std::string subject = layer.digest.text();
            while (const size_t got =
                       sys::read(blob.get(), buffer.data(), buffer.size(), subject)) {
                hash.update(buffer.data(), got);
                sys::write_all(fd, buffer.data(), got, subject);
            }
            if (hash.finish() != layer.digest)
                throw Error(ErrorKind::invalid_image,
                            fmt::format("the layer {} of the base image has other contents than "
                                        "its digest says",
                                        subject));
            return layer;
        });
    }

    /// The merged view of these layers; the last one asked for is kept and extended.
    const ImageTree& tree_of(const std::vector<image::Layer>& layers) {
        const bool extends =
            tree_ && tree_->layers().size() <= layers.size() &&
            std::equal(tree_->layers().begin(), tree_->layers().end(), layers.begin());
        if (!extends) tree_ = std::make_unique<ImageTree>(store_);
        for (size_t i = tree_->layers().size(); i < layers.size(); ++i) tree_->apply(layers[i]);
        return *tree_;
    }

    const ImageTree& source_tree(size_t step) {
        auto& tree = source_trees_[step];
        if (!tree) {
            tree = std::make_unique<ImageTree>(store_);
            for (const image::Layer& layer : done_[step].layers) tree->apply(layer);
        }
        return *tree;
    }

    // --- steps ---

    std::optional<image::Layer> do_run(const Step& step, const Done& parent) {
        if (!run_checked_) {
            require_run_support(store_);
            run_checked_ = true;
        }
        MountSources sources;
        sources.context = &input_.context;
        sources.step_tree = [this](size_t id) -> const ImageTree& { return source_tree(id); };
        const RunOutcome outcome =
            run_command_layer(store_, tree_of(parent.layers), step.run, sources, times_);
        if (!outcome.status.success()) {
            Error error = recipe_error(
                input_.subject, step.place,
                fmt::format("the command of RUN ended with {}", outcome.status.describe()),
                ErrorKind::command_failed);
            error.note(fmt::format("the command: {}", summary(step.text)));
            if (outcome.status.shell_code() == 127)
                error.hint("install the program in a RUN before, or mend its name or the PATH");
            throw error;
        }
        return outcome.layer;
    }

    std::optional<image::Layer> do_copy(const Step& step, const Done& parent) {
        const FileTree& source =
            step.copy.from_step ? static_cast<const FileTree&>(source_tree(*step.copy.from_step))
                                : static_cast<const FileTree&>(input_.context);
        return write_copy_layer(store_, tree_of(parent.layers), source, step.copy, times_);
    }

    std::optional<image::Layer> do_preload(const Step& step, const Done& parent) {
        DigestMemo memo("");
        const BuildContext bundle(input_.bundles.at(step.directory), {}, memo);
        CopyAction everything;
        everything.sources = {"."};
        everything.destination = "/";
        return write_copy_layer(store_, tree_of(parent.layers), bundle, everything, times_);
    }

    image::Store& store_;
    const ExecuteInput& input_;
    const BuildPlan& plan_;
    StepCache cache_;
    std::unique_ptr<ImageTree> tree_;
    std::map<size_t, std::unique_ptr<ImageTree>> source_trees_;
    std::vector<Done> done_;
    LayerTimes times_;
    ExecuteResult result_;
    bool run_checked_ = false;
    bool keys_hold_ = true;  ///< the context has been what the plan saw
};

}  // namespace

ExecuteResult execute_plan(image::Store& store, const ExecuteInput& input) {
    return Executor(store, input).run();
}

}  // namespace slipway::builder
