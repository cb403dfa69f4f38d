# slipway doctor on this host, and in restricted places that an ordinary user can make for itself.
# Must not: change a setting of the host; what is restricted is a namespace, a process or a directory of the test's own.
import ctypes
import json
import os
import platform
import shutil
import struct
import subprocess

from slipway_test import SlipwayTest, main, program, require_program, run

NEEDED = ("user namespaces", "mounts", "detached mounts", "/dev/fuse", "squashfs over FUSE", "overlay in memory",
          "overlay over squashfs", "overlay on the store", "seccomp notification", "process descriptors")
WITHIN = NEEDED[1:3] + NEEDED[4:8]  # what needs a user namespace
UNSHARE_CALL = {"x86_64": 272, "aarch64": 97}[platform.machine()]
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER, EPERM = 22, 38, 2, 1


def forbid_unshare():
    """Put a seccomp filter on this process: unshare(2) fails with EPERM, as under a container engine."""
    code = b"".join(struct.pack("HBBI", *line) for line in (
        (0x20, 0, 0, 0),                      # load the call's number
        (0x15, 0, 1, UNSHARE_CALL),           # is it unshare?
        (0x06, 0, 0, 0x00050000 | EPERM),     # yes: EPERM
        (0x06, 0, 0, 0x7fff0000)))            # no: allow
    filters = ctypes.create_string_buffer(code)
    head = struct.pack("HxxxxxxP", 4, ctypes.addressof(filters))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0):
        os._exit(99)


class Doctor(SlipwayTest):
    def findings(self, result, status=0):
        self.assert_status(result, status)
        self.assertEqual(result.stderr, "")
        diagnosis = result.json()
        self.assertEqual(diagnosis["images_run"], status == 0)
        return {finding["name"]: finding for finding in diagnosis["findings"]}

    def shell(self, script, *namespaces, env=None, timeout=120):
        """Run a script with "$@" = slipway doctor --json, in namespaces of its own if some are named."""
        words = ["bash", "-ec", script, "sh", program(), "doctor", "--json"]
        if namespaces:
            words = [require_program("unshare"), *namespaces, *words]
        return run(words, env={**self.env, **(env or {})}, cwd=self.path(""), timeout=timeout)

    def assert_problem(self, findings, name, *texts):
        finding = findings[name]
        self.assertEqual(finding["level"], "problem", finding)
        for text in texts:
            self.assertIn(text, finding["found"] + finding["meaning"] + finding["remedy"])
        self.assertNotEqual(finding["meaning"], "")

    def assert_levels(self, findings, level, names):
        self.assertEqual([findings[name] for name in names if findings[name]["level"] != level], [])

    def test_this_host_allows_all(self):
        findings = self.findings(self.slipway("doctor", "--json"))
        self.assert_levels(findings, "ok", NEEDED)
        self.assertEqual([f for f in findings.values() if f["level"] == "problem"], [])
        for finding in findings.values():
            self.assertEqual(finding["level"] == "warning", finding["meaning"] != "", finding)

    def test_the_text_has_a_line_for_each_finding(self):
        result = self.assert_succeeds(self.slipway("doctor"))
        for name in NEEDED:
            self.assertRegex(result.stdout, rf"(?m)^ok +{name} ")
        self.assertRegex(result.stdout, r"(?m)^squashfs images run here \(0 problems, \d+ warnings\)$")

    def test_it_makes_no_store(self):
        self.findings(self.slipway("doctor", "--json"))
        self.assertFalse(os.path.exists(self.store))
        elsewhere = self.findings(self.slipway("doctor", "--json", "--storage", self.path("a/b")))["store"]
        self.assertIn(f'"{self.path("a/b")}" (not made yet)', elsewhere["found"])

    def test_no_user_namespaces_left(self):
        findings = self.findings(self.shell('echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"', "-Ur"), 1)
        self.assert_problem(findings, "user namespaces", "sysctl user.max_user_namespaces=65536")
        self.assert_problem(findings, "user namespaces allowed", "user.max_user_namespaces is 0")
        self.assert_levels(findings, "skipped", WITHIN)

    def test_no_mount_namespaces_left(self):
        findings = self.findings(self.shell('echo 0 > /proc/sys/user/max_mnt_namespaces; exec "$@"', "-Ur"), 1)
        self.assert_problem(findings, "mounts", "user.max_mnt_namespaces=65536")
        self.assert_levels(findings, "ok", ["user namespaces"])

    def test_no_fuse_device(self):
        findings = self.findings(self.shell('mount --bind /dev/null /dev/fuse; exec "$@"', "-Urm"), 1)
        self.assert_problem(findings, "/dev/fuse", "modprobe fuse; chmod 0666 /dev/fuse", "directories do")
        self.assert_levels(findings, "skipped", ["squashfs over FUSE", "overlay over squashfs"])
        self.assert_levels(findings, "ok", ["user namespaces", "mounts", "overlay in memory"])
        findings = self.findings(self.shell('mount -t tmpfs none /dev; exec "$@" 2>&1', "-Urm"), 1)
        self.assert_problem(findings, "/dev/fuse", 'there is no "/dev/fuse"')

    def test_a_seccomp_filter(self):
        process = subprocess.run([program(), "doctor", "--json"], env=self.env, stdout=subprocess.PIPE, text=True,
                                 preexec_fn=forbid_unshare, timeout=60)
        self.assertEqual(process.returncode, 1)
        findings = {finding["name"]: finding for finding in json.loads(process.stdout)["findings"]}
        self.assert_problem(findings, "user namespaces", "EPERM, unshare", "seccomp filter", "seccomp=unconfined")
        self.assert_levels(findings, "skipped", WITHIN)

    def test_a_run_explains_as_the_doctor_does(self):
        os.mkdir(self.path("root"))
        process = subprocess.run([program(), "run", self.path("root"), "--", "true"], env=self.env, text=True,
                                 stderr=subprocess.PIPE, preexec_fn=forbid_unshare, timeout=60)
        self.assertEqual(process.returncode, 125)
        self.assertIn("a seccomp filter is on this process", process.stderr)

    def test_a_chroot(self):
        root = self.path("root")
        binds = [name for name in os.listdir("/") if os.path.isdir(f"/{name}") and not os.path.islink(f"/{name}")]
        for name in binds:
            os.mkdir(os.path.join(root, name)) if os.path.isdir(root) else os.makedirs(os.path.join(root, name))
        for name in os.listdir("/"):
            if os.path.islink(f"/{name}"):
                os.symlink(os.readlink(f"/{name}"), os.path.join(root, name))
        chroot = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin")
        mounts = "".join(f"mount --rbind /{name} {root}/{name}; " for name in binds)
        findings = self.findings(self.shell(f'{mounts} exec {chroot} {root} "$@"', "-Urm"), 1)
        self.assert_problem(findings, "user namespaces", "in a chroot", "outside of the chroot")

    def test_low_limits(self):
        findings = self.findings(self.shell('ulimit -n 40; exec "$@"'))
        self.assertEqual((findings["open files"]["level"], findings["open files"]["found"]),
                         ("warning", "40 (ulimit -n; at most 40)"))
        self.assertIn("nofile", findings["open files"]["remedy"])
        findings = self.findings(self.shell('ulimit -S -n 24; exec "$@"'), 1)
        self.assert_problem(findings, "open files", "ulimit -n 1024")

    def test_no_process_left(self):
        findings = self.findings(self.shell('ulimit -u 1; exec "$@"'), 1)
        self.assert_problem(findings, "user namespaces", "cannot start a process", "EAGAIN")
        self.assert_problem(findings, "processes", "nproc")

    def test_a_full_temporary_directory(self):
        os.mkdir(self.path("full"))
        script = f'mount -t tmpfs -o size=64k none {self.path("full")}; head -c 1M /dev/zero > {self.path("full/file")}'
        findings = self.findings(self.shell(script + ' 2>&- || :; exec "$@"', "-Urm", env={"TMPDIR": self.path("full")}))
        self.assertEqual(findings["use of temporary files"]["level"], "warning")
        self.assertIn("ENOSPC", findings["use of temporary files"]["found"])
        self.assertIn("TMPDIR", findings["use of temporary files"]["remedy"])
        self.assertEqual(findings["temporary files"]["level"], "warning")
        self.assert_levels(findings, "ok", NEEDED)  # another place was found for the trials

    def test_a_directory_whose_server_does_not_answer(self):
        os.mkdir(self.path("dead"))
        script = f'exec 9<>/dev/fuse; mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 none {self.path("dead")}; '
        findings = self.findings(self.shell(script + 'exec "$@"', "-Urm", env={"TMPDIR": self.path("dead")}))
        for name in ("temporary files", "use of temporary files"):
            self.assertEqual(findings[name]["level"], "warning")
            self.assertIn("no answer within 5 s", findings[name]["found"])
        self.assert_levels(findings, "ok", NEEDED)

    def test_settings_and_the_layer_that_won(self):
        site = os.path.dirname(self.write("site/config.json", '{"linger": "1", "env": {"A": "b"}}'))
        user = self.write(os.path.join(self.env["HOME"], ".config/slipway/config.json"), '{"linger": "2"}')
        env = {"SLIPWAY_SITE": site, "SLIPWAY_LINGER": "3"}
        findings = self.findings(self.slipway("doctor", "--json", env=env))
        self.assertEqual(findings["setting linger"]["found"],
                         f'"3", by SLIPWAY_LINGER; over "2", by "linger" in {user}; over "1", by "linger" in '
                         f'{site}/config.json; over the session ends with its last command, by built in')
        self.assertEqual(findings["setting env"]["found"], f'set "A=b", by "env" in {site}/config.json')
        self.assertIn("by SLIPWAY_STORE", findings["setting store"]["found"])
        self.assertEqual(findings["site policy"]["found"], "none")

    def test_bad_settings_and_policy_are_problems(self):
        site = os.path.dirname(self.write("site/config.json", '{"lingr": "1"}'))
        self.write("site/policy.json", '{"require_signature": true}')
        findings = self.findings(self.slipway("doctor", "--json", env={"SLIPWAY_SITE": site}), 1)
        self.assert_problem(findings, "configuration", "lingr", "linger")
        self.assert_problem(findings, "site policy", "signatures required")
        self.write("site/policy.json", '{"ownrs": []}')
        findings = self.findings(self.slipway("doctor", "--json", env={"SLIPWAY_SITE": site}), 1)
        self.assert_problem(findings, "site policy", "ownrs")


if __name__ == "__main__":
    main()
