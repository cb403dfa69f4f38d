// Decides which variables a command in a container sees.
// Must not: read our own environment; it is handed in.
#include "environment.hpp"

#include <string_view>

namespace slipway::runtime {

namespace {

constexpr const char* kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables that hold one path of the host: they stay only if that path is seen inside.
constexpr const char* kPathVariables[] = {"HOME", "TMPDIR", "XDG_RUNTIME_DIR", "XAUTHORITY",
                                          "KRB5_CONFIG"};

bool has_component(std::string_view list, std::string_view wanted) {
    while (true) {
        const size_t colon = list.find(':');
        if (list.substr(0, colon) == wanted) return true;
        if (colon == std::string_view::npos) return false;
        list.remove_prefix(colon + 1);
    }
}

void drop_paths(Environment& environment, const Visible& visible) {
    for (const char* name : kPathVariables) {
        const auto found = environment.find(name);
        if (found == environment.end() || visible(found->second)) continue;
        environment.erase(found);
    }
}

}  // namespace

const std::vector<DroppedVariable>& dropped_variables() {
    static const std::vector<DroppedVariable> rows = {
        {"LD_*", "libraries of the host loaded into the image's programs crash them"},
        {"GCONV_PATH", "converters of the host's C library"},
        {"LOCPATH", "locales of the host's C library"},
        {"NLSPATH", "message catalogues of the host"},
        {"PYTHON*", "modules and interpreter settings of the host"},
        {"VIRTUAL_ENV", "a Python environment of the host"},
        {"CONDA_*", "a conda environment of the host"},
        {"_CE_*", "conda's own state"},
        {"PERL*", "modules and settings of the host's Perl"},
        {"RUBY*", "the host's Ruby"},
        {"GEM_*", "the host's Ruby"},
        {"R_HOME", "the host's R"},
        {"R_LIBS*", "the host's R"},
        {"JULIA_*", "the host's Julia"},
        {"NODE_*", "the host's Node.js"},
        {"LUA_*", "the host's Lua"},
        {"TCLLIBPATH", "the host's Tcl"},
        {"CLASSPATH", "the host's Java"},
        {"JAVA_*", "the host's Java"},
        {"MODULE*", "environment modules: their files are not in the image"},
        {"LOADEDMODULES", "environment modules"},
        {"_LMFILES_*", "environment modules"},
        {"__MODULES*", "environment modules"},
        {"LMOD_*", "Lmod: its files are not in the image"},
        {"__LMOD*", "Lmod"},
        {"_ModuleTable*", "Lmod"},
        {"EBROOT*", "EasyBuild modules of the host"},
        {"EBDEVEL*", "EasyBuild modules of the host"},
        {"EBVERSION*", "EasyBuild modules of the host"},
        {"SPACK_*", "Spack of the host"},
        {"BASH_ENV", "a script of the host that every bash would read"},
        {"ENV", "a script of the host that every sh would read"},
        {"BASH_FUNC_*", "shell functions that call programs of the host"},
        {"PROMPT_COMMAND", "calls programs of the host"},
        {"LESSOPEN", "calls a program of the host"},
        {"LESSCLOSE", "calls a program of the host"},
        {"SHELL", "the user's shell may not be in the image"},
        {"CPATH", "headers of the host"},
        {"C_INCLUDE_PATH", "headers of the host"},
        {"CPLUS_INCLUDE_PATH", "headers of the host"},
        {"LIBRARY_PATH", "libraries of the host"},
        {"CMAKE_PREFIX_PATH", "packages of the host"},
        {"PKG_CONFIG*", "packages of the host"},
        {"ACLOCAL_PATH", "packages of the host"},
        {"MANPATH", "manuals of the host"},
        {"INFOPATH", "manuals of the host"},
        {"XDG_DATA_DIRS", "data of the host's programs"},
        {"XDG_CONFIG_DIRS", "settings of the host's programs"},
        {"CUDA_HOME", "the host's CUDA toolkit"},
        {"CUDA_PATH", "the host's CUDA toolkit"},
        {"CUDA_ROOT", "the host's CUDA toolkit"},
        {"OPAL_PREFIX", "where the host's Open MPI lies"},
        {"SSL_CERT_*", "certificates under a path of the host"},
        {"CURL_CA_BUNDLE", "certificates under a path of the host"},
        {"REQUESTS_CA_BUNDLE", "certificates under a path of the host"},
        {"DBUS_SESSION_BUS_ADDRESS", "the session's bus is not reached from inside"},
        {"PWD", "the command starts elsewhere"},
        {"OLDPWD", "the command starts elsewhere"},
        {"_", "the shell's record of what it started"},
    };
    return rows;
}

const DroppedVariable* find_dropped(const std::string& name) {
    for (const auto& row : dropped_variables()) {
        const std::string_view pattern = row.pattern;
        if (pattern.back() == '*' ? name.starts_with(pattern.substr(0, pattern.size() - 1))
                                  : name == pattern)
            return &row;
    }
    return nullptr;
}

namespace {

std::vector<std::string> as_strings(const Environment& environment) {
    std::vector<std::string> strings;
    for (const auto& [name, value] : environment) strings.push_back(name + "=" + value);
    return strings;
}

Environment apply_settings(const RunSpec& spec, const Environment& host, Environment environment) {
    for (const auto& setting : spec.env.settings) {
        if (setting.value)
            environment[setting.name] = *setting.value;
        else if (const auto found = host.find(setting.name); found != host.end())
            environment[setting.name] = found->second;
    }
    return environment;
}

}  // namespace

std::vector<std::string> plan_host_environment(const RunSpec& spec, const Environment& host) {
    if (spec.env.exact) return *spec.env.exact;
    return as_strings(apply_settings(spec, host, host));
}

std::vector<std::string> plan_environment(const RunSpec& spec, const Environment& host,
                                          const image::ImageConfig& config,
                                          const Visible& visible) {
    if (spec.env.exact) return *spec.env.exact;
    Environment environment;
    for (const auto& [name, value] : host)
        if (find_dropped(name) == nullptr) environment.emplace(name, value);
    drop_paths(environment, visible);
    environment.emplace("HOME", "/");
    environment["PATH"] = kDefaultPath;
    environment["container"] = "slipway";  // the convention of systemd and podman
    for (const auto& entry : config.env) {
        const size_t equals = entry.find('=');
        if (equals == std::string::npos) continue;
        environment[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
    if (std::string& path = environment["PATH"]; !has_component(path, "/bin"))
        path += path.empty() ? "/bin" : ":/bin";
    return as_strings(apply_settings(spec, host, std::move(environment)));
}

}  // namespace slipway::runtime
