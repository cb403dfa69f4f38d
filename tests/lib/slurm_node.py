# A real Slurm of one node, owned by an ordinary user: munged, slurmctld and slurmd in a directory of a test.
# Must not: need root, or leave a daemon behind.
import getpass
import os
import signal
import socket
import subprocess
import time

from slipway_test import require_program

CONFIGURATION = """
ClusterName=slipway
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={place}/munge.socket
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/cons_tres
KillWait=2
MailProg=/bin/true
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=500 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(count):
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Slurm:
    """Started by the constructor; `env` is what its commands need."""

    def __init__(self, place, env):
        self.place, self.daemons = place, []
        for name in ("", "state", "spool"):
            os.mkdir(os.path.join(place, name), 0o755)
        with open(os.path.join(place, "munge.key"), "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(os.urandom(128))
        with open(os.path.join(place, "slurm.conf"), "w") as file:
            file.write(CONFIGURATION.format(host=socket.gethostname().split(".")[0], user=getpass.getuser(), place=place,
                                            ports=free_ports(2)))
        self.env = env | {"SLURM_CONF": os.path.join(place, "slurm.conf")}
        try:
            self.start("munged", "--foreground", "--force", *[f"--{name}={place}/munge.{end}" for name, end in (
                ("socket", "socket"), ("key-file", "key"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))])
            self.wait_for(lambda: os.path.exists(os.path.join(place, "munge.socket")))
            self.start("slurmctld", "-D", "-i")
            self.start("slurmd", "-D")
            self.wait_for(lambda: "idle" in subprocess.run(["sinfo", "-h", "-o", "%t"], env=self.env, text=True,
                                                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.split())
        except BaseException:
            self.stop()
            raise

    def start(self, name, *arguments):
        with open(os.path.join(self.place, name + ".out"), "wb") as out:
            self.daemons.append(subprocess.Popen([require_program(name), *arguments], env=self.env, stdin=subprocess.DEVNULL,
                                                 stdout=out, stderr=subprocess.STDOUT, cwd=self.place))

    def wait_for(self, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError("Slurm does not start:\n" + self.logs())
            time.sleep(0.1)

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.place)):
            if name.endswith((".out", ".log")):
                with open(os.path.join(self.place, name), errors="replace") as file:
                    text += f"--- {name}\n{file.read()[-2000:]}\n"
        return text

    def step_daemons(self):
        """Return the pids of this node's slurmstepd processes: nobody's children, but their log is ours."""
        log, found = os.path.join(self.place, "slurmd.log"), []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as file:
                    if file.read() == "slurmstepd\n" and log in (os.readlink(f"/proc/{pid}/fd/{number}")
                                                                 for number in os.listdir(f"/proc/{pid}/fd")):
                        found.append(int(pid))
            except OSError:
                continue
        return found

    def stop(self):
        deadline = time.monotonic() + 10
        while self.step_daemons() and time.monotonic() < deadline:
            time.sleep(0.1)
        for pid in self.step_daemons():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
