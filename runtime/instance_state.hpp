// What is remembered of an instance, and where.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "process_tree.hpp"
#include "slipway/base/file.hpp"
#include "slipway/base/json.hpp"

namespace slipway::runtime {

/// One instance, as its supervisor last wrote it.
struct InstanceRecord {
    std::string name;
    std::string id;              ///< random; in the environment of all that runs in the instance
    ProcessIdentity supervisor;  ///< ours
    std::string host_namespace;  ///< the mount namespace of who started it
    ProcessIdentity command;     ///< pid 0 until it is started
    bool entered = false;        ///< the command is what runs in the container, no more its set-up
    std::string image;
    std::vector<std::string> argv;
    std::vector<std::string> environment;  ///< of the command, "K=V"
    std::string working_directory;
    bool fake_root_calls = false;
    bool persist = false;
    ProcessIdentity starter;  ///< who waits until it is ready
    bool accepted = false;    ///< the starter has been content; else it ends with the starter
    bool awaits_ready = false;
    bool ready = false;
    int stop_signal = 0;
    int64_t started_at = 0;          ///< seconds since 1970
    std::string end;                 ///< "" while it lives
    std::optional<int> exit_status;  ///< of the ended command
};

/// The name of the variable that holds an instance's id.
inline constexpr const char* kInstanceIdVariable = "SLIPWAY_INSTANCE_ID";

/// The instances of this user on this host. The directory is the host's and this boot's own: a home
/// directory may be shared by many hosts, and a pid means nothing on another.
class InstanceDirectory {
 public:
    /// Find it; where there is none, nothing is remembered. Throws: SysError.
    static InstanceDirectory open();
    /// The same, made if absent.
    static InstanceDirectory make();

    const std::string& path() const { return path_; }
    std::string log_path(const std::string& name) const;
    /// Names with a record, sorted.
    std::vector<std::string> names() const;
    /// std::nullopt when there is no record, or it cannot be understood.
    std::optional<InstanceRecord> read(const std::string& name) const;
    void write(const InstanceRecord& record) const;
    /// Remove the record, if it is still that of this instance; its log stays.
    void remove(const InstanceRecord& record) const;
    /// Make an instance's directory; the log of the one before becomes log.previous.
    void prepare(const std::string& name) const;
    /// Hold this while a name is claimed or given up.
    FileLock lock() const;

 private:
    std::string path_;
};

/// Throws: Error(usage) when the text cannot be an instance's name.
void check_instance_name(const std::string& name);
/// Read "TERM", "SIGTERM" or "15". Throws: Error(usage) naming `origin`.
int parse_signal(const std::string& text, const std::string& origin);

/// Every process in the instance's container, its supervisor not among them: what descends from the
/// supervisor, what has the instance's id in its environment, and what shares a mount namespace of
/// the instance's own with one of these. The session's own processes are in `helpers`.
struct InstanceProcesses {
    std::vector<ProcessIdentity> inside;
    std::vector<ProcessIdentity> helpers;
};
InstanceProcesses processes_of(const InstanceRecord& record);
/// The mount namespace of a process ("self": ours), as the kernel names it; "" when we may not
/// know.
std::string mount_namespace_of(const std::string& proc_name);
/// Send SIGKILL to all of them until none is left; false when some outlive `limit`.
bool kill_processes_of(const InstanceRecord& record, std::chrono::milliseconds limit);

}  // namespace slipway::runtime
