// Runs the checks of `slipway doctor` in order, and what every check uses.
// Must not: know what any single check tries.
#include "slipway/runtime/doctor.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>

#include "doctor_checks.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/path.hpp"
#include "slipway/base/process.hpp"
#include "slipway/base/sys.hpp"
#include "slipway/runtime/configuration.hpp"

namespace slipway::runtime {

namespace doctor {

namespace {

bool ends_within(const ChildProcess& child, std::chrono::milliseconds timeout) {
    pollfd ended{child.pidfd(), POLLIN, 0};
    return ::poll(&ended, 1, static_cast<int>(timeout.count())) > 0;
}

/// A child that hangs inside a file system cannot be waited for, not even after SIGKILL.
void abandon(ChildProcess& child) {
    child.kill(SIGKILL);
    if (!ends_within(child, std::chrono::seconds(1)))
        new ChildProcess(std::move(child));  // init reaps it once the file system answers
}

}  // namespace

Trial try_in_child(const std::function<std::string()>& body, std::chrono::milliseconds timeout) {
    Trial trial;
    try {
        auto [reader, writer] = sys::pipe();
        ForkedChild child = fork_child([&, &out = writer] {
            sys::set_parent_death_signal(SIGKILL);
            const std::string text = body();
            sys::write_all(out.get(), text.data(), text.size(), "the trial's pipe");
            return 0;
        });
        writer.reset();
        if (!ends_within(child.process, timeout)) {
            abandon(child.process);
            trial.error.emplace(ErrorKind::busy,
                                fmt::format("no answer within {} s", timeout.count() / 1000));
            return trial;
        }
        if (const ExitStatus status = wait_forked(child); !status.success())
            trial.error.emplace(ErrorKind::internal, "the trial ended with " + status.describe());
        else
            trial.text = read_all(reader.get(), "the trial's pipe");
    } catch (const Error& error) {
        trial.error = error;
    }
    return trial;
}

Finding good(const std::string& name, const std::string& found) {
    return {Finding::Level::ok, name, found, {}, {}};
}

Finding skipped(const std::string& name, const std::string& reason) {
    return {Finding::Level::skipped, name, "not tried: " + reason, {}, {}};
}

Finding failed(Finding::Level level, const std::string& name, const Error& error,
               const std::string& meaning, const std::string& remedy) {
    Finding finding{level, name, error.message(), meaning, remedy};
    for (const auto& note : error.notes()) finding.found += "; " + note;
    if (remedy.empty()) finding.remedy = error.hint();
    return finding;
}

std::string nearest_directory(const std::string& path) {
    const Trial trial = try_in_child(
        [&] {
            std::string near = path;
            while (near.size() > 1) {
                const auto status = sys::stat_if_exists(AT_FDCWD, near);
                if (status && S_ISDIR(status->st_mode)) break;
                near = parent_path(near);
            }
            return near;
        },
        kPatience);
    return trial.ok() ? trial.text : path;
}

void require_answer(const std::string& directory) {
    Trial trial = try_in_child(
        [&] {
            const UniqueFd fd = sys::open(directory, O_RDONLY | O_DIRECTORY);
            sys::list_directory(fd.get(), directory);
            return std::string();
        },
        kPatience);
    if (!trial.ok())
        throw trial.error->note(fmt::format("while looking into {}", slipway::quoted(directory)));
}

}  // namespace doctor

namespace {

/// The store as the other subcommands would choose it, without opening or making it.
std::string store_directory(const std::string& flag) {
    std::string chosen = flag;
    try {
        if (chosen.empty()) chosen = load_configuration().value("store");
    } catch (const Error&) {  // told by check_settings()
    }
    if (!chosen.empty()) return absolute_path(chosen);
    const char* data = std::getenv("XDG_DATA_HOME");
    return join_path(
        data != nullptr && data[0] == '/' ? data : join_path(home_directory(), ".local/share"),
        "slipway");
}

}  // namespace

bool Diagnosis::images_run() const {
    return std::none_of(findings.begin(), findings.end(), [](const Finding& finding) {
        return finding.level == Finding::Level::problem;
    });
}

std::string to_string(Finding::Level level) {
    switch (level) {
        case Finding::Level::ok:
            return "ok";
        case Finding::Level::skipped:
            return "skipped";
        case Finding::Level::warning:
            return "warning";
        case Finding::Level::problem:
            return "problem";
    }
    return "?";
}

Diagnosis examine_host(const std::string& store) {
    const std::string directory = store_directory(store);
    Diagnosis diagnosis;
    const auto add = [&](doctor::Findings findings) {
        std::move(findings.begin(), findings.end(), std::back_inserter(diagnosis.findings));
    };
    add(doctor::check_isolation(directory));
    add(doctor::check_limits());
    add(doctor::check_processes());
    add(doctor::check_places(directory));
    add(doctor::check_settings());
    return diagnosis;
}

Json to_json(const Diagnosis& diagnosis) {
    Json list = Json::array();
    for (const auto& finding : diagnosis.findings)
        list.push_back({{"name", finding.name},
                        {"level", to_string(finding.level)},
                        {"found", finding.found},
                        {"meaning", finding.meaning},
                        {"remedy", finding.remedy}});
    return {{"images_run", diagnosis.images_run()}, {"findings", list}};
}

}  // namespace slipway::runtime
