// Loads a transport plugin and speaks to it through its table.
// Must not: choose the plugin (connect.cpp does).
#include "comm/plugin.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "comm/bundle.hpp"
#include "comm/transport_abi.h"
#include "slipway/base/error.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/sys.hpp"

namespace slipway::train {

namespace {

class PluginCommunicator final : public Communicator {
 public:
    explicit PluginCommunicator(const struct slipway_transport* table) : table_(table) {
        slipway_transport_world world{};
        char text[512] = "";
        if (table_->init(&world, text, sizeof text) != 0)
            throw Error(ErrorKind::launcher,
                        fmt::format("transport {} cannot start: {}", table_->name, text));
        world_ = {world.rank, world.size, world.local_rank, world.local_size, table_->name};
    }

    ReduceBuffer reduce_buffer(size_t count) override {
        buffer_.assign(count, 0.0f);
        return {buffer_.data(), buffer_.data(), count};
    }
    void all_reduce(size_t offset, size_t count) override {
        call(table_->all_reduce_f32, buffer_.data() + offset, count);
    }
    void sum(std::span<double> values) override {
        call(table_->all_reduce_f64, values.data(), values.size());
    }
    void broadcast(void* data, size_t size_bytes, int root) override {
        call(table_->broadcast, data, size_bytes, root);
    }
    void all_gather(const void* mine, size_t size_bytes, void* out) override {
        call(table_->all_gather, mine, size_bytes, out);
    }
    void barrier() override { call(table_->barrier); }
    void finish() override { call(table_->finish); }
    void abort(int exit_status) override {
        if (world_.size == 1) return;
        // Some MPIs wait for the launcher's answer, which never comes if it is the launcher that
        // is ill.
        std::thread([exit_status] {
            std::this_thread::sleep_for(std::chrono::seconds(5));
            std::_Exit(exit_status);
        }).detach();
        table_->abort(exit_status);
        std::_Exit(exit_status);  // if the MPI has let us come back
    }

 private:
    template <typename Function, typename... Args>
    void call(Function function, Args... args) {
        char text[512] = "";
        if (function(args..., text, sizeof text) == 0) return;
        throw Error(ErrorKind::launcher,
                    fmt::format("the ranks have lost each other ({}): {}", table_->name, text))
            .note(fmt::format("this is rank {} of {}", world_.rank, world_.size));
    }

    const struct slipway_transport* table_;
    std::vector<float> buffer_;
};

}  // namespace

std::string plugin_path(const std::string& name) {
    const std::string program = program_directory();
    const std::string file = "libslipway-mpi-" + name + ".so";
    for (const char* place : {"../lib/slipway", "../lib"}) {
        std::string path = lexically_normal(join_path(join_path(program, place), file));
        if (sys::stat_if_exists(AT_FDCWD, path)) return path;
    }
    throw Error(ErrorKind::launcher,
                fmt::format("transport {} is not installed", slipway::quoted(name)))
        .note(fmt::format("no {} in {}", file,
                          lexically_normal(join_path(program, "../lib/slipway"))))
        .hint(fmt::format("install Slipway's {} transport, or launch with the other MPI's mpiexec",
                          name));
}

std::unique_ptr<Communicator> load_plugin(const std::string& name) {
    const std::string path = plugin_path(name);
    prepare_bundle_environment(name);
    prepare_for_user_namespace(name);
    // Global, because Open MPI's own components expect its symbols in the global scope. Never
    // closed: MPI libraries leave handlers and threads behind.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
        const std::string why = dlerror();
        throw Error(ErrorKind::launcher,
                    fmt::format("cannot load transport {}", slipway::quoted(name)))
            .note(why)
            .hint(
                "install the run-time libraries of this MPI, or launch with the other MPI's "
                "mpiexec");
    }
    using Entry = const struct slipway_transport* (*)();
    auto entry = reinterpret_cast<Entry>(dlsym(library, "slipway_transport_table"));
    if (entry == nullptr)
        throw Error(ErrorKind::launcher,
                    slipway::quoted(path) + " is no transport of slipway-train");
    const struct slipway_transport* table = entry();
    if (table->abi_version != SLIPWAY_TRANSPORT_ABI_VERSION)
        throw Error(
            ErrorKind::launcher,
            fmt::format("{} has transport ABI {}, this program needs {}", slipway::quoted(path),
                        table->abi_version, SLIPWAY_TRANSPORT_ABI_VERSION))
            .hint("install program and transports of one version of Slipway");
    return std::make_unique<PluginCommunicator>(table);
}

}  // namespace slipway::train
