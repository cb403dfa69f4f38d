# The fault matrix of the store: killed at every change it makes, or without room, it is consistent and the next command works.
# Must not: use Slipway to decide whether the store is consistent.
"""Every command that changes the store is killed after its first, second, ... change until it comes through; after each
kill the store is checked, and then the same command must succeed."""
import ctypes
import errno
import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import time

from slipway_test import Dir, File, SlipwayTest, Whiteout, main, program, require_program, run


class Store(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.layouts = [self.make_oci_layout([[Dir("d"), File("d/base", "base" * 5000)], [File(f"own{n}", str(n) * 3000), Whiteout("d/base")]],
                                             name=f"layout{n}") for n in range(4)]

    # --- what "consistent" means ---

    def blobs(self):
        directory = os.path.join(self.store, "oci/blobs/sha256")
        return {name: os.path.join(directory, name) for name in (os.listdir(directory) if os.path.isdir(directory) else [])}

    def check_store(self, case):
        """Every blob has its digest, every name has all its blobs, nothing unfinished lies about after the next command."""
        blobs = self.blobs()
        for name, path in blobs.items():
            with open(path, "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), name, f"{case}: a blob is not what its name says")
        index = os.path.join(self.store, "oci/index.json")
        names = []
        if os.path.exists(index):
            with open(index) as file:
                for manifest in json.load(file)["manifests"]:
                    names.append(manifest["annotations"]["org.opencontainers.image.ref.name"])
                    with open(blobs[manifest["digest"][7:]]) as text:
                        document = json.load(text)
                    for blob in [document["config"], *document["layers"]]:
                        self.assertIn(blob["digest"][7:], blobs, f"{case}: {names[-1]} lacks a blob")
        return sorted(names)

    def check_after_kill(self, case):
        self.assert_succeeds(self.slipway("images"))  # as any command does, it sweeps
        names = self.check_store(case)
        self.assertEqual(os.listdir(os.path.join(self.store, "tmp")), [], case)
        strays = [name for name in os.listdir(os.path.join(self.store, "oci")) if name not in ("blobs", "index.json", "oci-layout")]
        self.assertEqual(strays, [], case)
        for part in ("squashfs", "packs"):
            path = os.path.join(self.store, part)
            for name in os.listdir(path) if os.path.isdir(path) else []:
                self.assertRegex(name, "^[0-9a-f]{64}", case)
        return names

    def kill_at_every_change(self, *command, prepare=lambda: None):
        step = 0
        while True:
            step += 1
            prepare()
            result = self.slipway(*command, env={"SLIPWAY_FAULT": f"change@{step}:kill"})
            if result.status == 0:
                self.assertGreater(step, 1, "the command changes nothing")
                return step - 1
            self.assertEqual(result.status, 128 + signal.SIGKILL, f"{command}, change {step}\n{result}")
            case = f"{' '.join(command)}, killed after change {step}"
            self.check_after_kill(case)
            prepare()
            self.assert_succeeds(self.slipway(*command))
            self.check_after_kill(case + ", then run again")

    def fresh(self):
        shutil.rmtree(self.store, ignore_errors=True)

    def filled(self):
        self.fresh()
        for n in (0, 1):
            self.assert_succeeds(self.slipway("convert", f"oci:{self.layouts[n]}", f"store:i{n}"))

    # --- kills ---

    def test_convert_into_the_store(self):
        changes = self.kill_at_every_change("convert", f"oci:{self.layouts[0]}", "store:new", prepare=self.fresh)
        self.assertGreater(changes, 15)

    def test_a_name_is_moved(self):
        self.kill_at_every_change("convert", f"oci:{self.layouts[2]}", "store:i0", prepare=self.filled)
        self.assertEqual(self.check_store("moved"), ["i0:latest", "i1:latest"])

    def test_rmi(self):
        step = 0
        while True:
            step += 1
            self.filled()
            result = self.slipway("rmi", "i0", env={"SLIPWAY_FAULT": f"change@{step}:kill"})
            if result.status == 0:
                break
            self.assertEqual(result.status, 128 + signal.SIGKILL, result)
            names = self.check_after_kill(f"rmi, killed after change {step}")
            self.assertIn(names, (["i0:latest", "i1:latest"], ["i1:latest"]))
            self.assert_succeeds(self.slipway("gc"))  # what rmi did not come to
            self.assertEqual(len(self.blobs()), 4 * len(names) - (len(names) == 2), f"{step}: {names}")
        self.assertGreater(step, 5)

    def test_gc(self):
        def with_garbage():
            self.filled()
            self.write_to_store("cache/key.json", json.dumps({"layer": {"digest": "sha256:" + "0" * 64}}))
            self.write_to_store("oci/blobs/sha256/" + hashlib.sha256(b"garbage").hexdigest(), "garbage")
            self.write_to_store("packs/" + "1" * 64, "pack")
            self.write_to_store("partial/" + "2" * 64, "part")
        self.kill_at_every_change("gc", prepare=with_garbage)
        self.assertEqual(len(self.blobs()), 7)
        for part in ("cache", "packs", "partial"):
            self.assertEqual(os.listdir(os.path.join(self.store, part)), [], part)

    def test_a_squashfs_of_a_stored_image(self):
        self.kill_at_every_change("run", "--dry-run", "i0", "--", "true", prepare=self.filled)

    def write_to_store(self, name, text):
        path = os.path.join(self.store, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def test_build(self):
        self.assert_succeeds(self.slipway("convert", f"oci:{self.layouts[0]}", "store:base"))
        context = os.path.dirname(self.write("context/Dockerfile", "FROM base\nCOPY file /file\nENV A=1\nLABEL l=v\n"))
        self.write("context/file", "copied")
        with_base = os.path.join(self._base, "with-base")
        shutil.copytree(self.store, with_base)

        def prepare():
            self.fresh()
            shutil.copytree(with_base, self.store)
        self.kill_at_every_change("build", "-t", "made", context, prepare=prepare)
        self.assertEqual(self.check_store("built"), ["base:latest", "made:latest"])

    # --- many at once ---

    def test_many_processes_add_and_remove(self):
        """Kills at random times among them: every name that stays is whole, and gc leaves nothing that no name needs."""
        running = []
        for n in range(24):
            command = [program(), "convert", f"oci:{self.layouts[n % 4]}", f"store:name{n}"]
            environment = dict(self.env)
            if n % 4 == 3:
                environment["SLIPWAY_FAULT"] = f"change@{random.randrange(1, 40)}:kill"
            running.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))
            if n % 5 == 4:
                running.append(subprocess.Popen([program(), "rmi", f"name{n - 4}"], env=self.env, stderr=subprocess.PIPE, text=True))
            if n % 8 == 7:
                running.append(subprocess.Popen([program(), "gc"], env=self.env, stderr=subprocess.PIPE, text=True))
        ends = [(process.communicate(timeout=100)[1], process.returncode) for process in running]
        for text, status in ends:
            self.assertIn(status, (0, -signal.SIGKILL, 125), text)
            if status == 125:  # rmi of what is not there yet, gc while others add
                self.assertRegex(text, "there is no image|another slipway is using the store")
        names = self.check_store("24 at once")
        self.assertGreaterEqual(len(names), 13, ends)
        self.assert_succeeds(self.slipway("gc"))
        self.assertEqual(self.check_after_kill("gc after 24 at once"), names)
        for name in names:
            self.assert_succeeds(self.slipway("rmi", name))
        self.assertEqual(self.blobs(), {})

    def test_ranks_make_one_squashfs(self):
        self.assert_succeeds(self.slipway("convert", f"oci:{self.layouts[0]}", "store:x"))
        ranks = [subprocess.Popen([program(), "run", "--dry-run", "x", "--", "true"],
                                  env=dict(self.env, **({"SLIPWAY_FAULT": f"change@{n}:kill"} if n % 2 else {})),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for n in range(12)]
        for n, rank in enumerate(ranks):
            _, error = rank.communicate(timeout=60)
            self.assertIn(rank.returncode, (0, -signal.SIGKILL) if n % 2 else (0,), error)
        self.assertEqual(len(os.listdir(os.path.join(self.store, "squashfs"))), 1)

    # --- locks, room, permissions ---

    def test_who_holds_a_lock_is_shown(self):
        self.assert_succeeds(self.slipway("convert", f"oci:{self.layouts[0]}", "store:x"))
        holder = subprocess.Popen([program(), "convert", f"oci:{self.layouts[1]}", "store:y"],
                                  env=dict(self.env, SLIPWAY_FAULT="change@6:stop"), stderr=subprocess.DEVNULL)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
        try:
            result = self.slipway("gc")
            self.assert_fails(result, "another slipway is using the store", f"process {holder.pid} (slipway", f"on {os.uname().nodename}",
                              "try: wait until it has ended")
        finally:
            holder.send_signal(signal.SIGCONT)
        self.assertEqual(holder.wait(30), 0)
        self.assert_succeeds(self.slipway("gc"))

    def without_locks(self, number, *command):
        """Run a command whose flock(2) fails with an errno, by a seccomp filter: the kernel's own answer, whatever lies below."""
        def refuse_flock():
            call = {"x86_64": 73, "aarch64": 32}[os.uname().machine]
            code = b"".join(struct.pack("HBBI", *line) for line in (
                (0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, 0x00050000 | number), (0x06, 0, 0, 0x7fff0000)))
            buffer = ctypes.create_string_buffer(code, len(code))
            filters = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer)), 16)
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filters, 0, 0):
                os._exit(99)
        return subprocess.run([program(), *command], env=self.env, capture_output=True, text=True, preexec_fn=refuse_flock, timeout=20)

    def test_a_file_system_without_locks(self):
        """As NFS without a lock service, or old network file systems: what needs a lock says so at once, with a remedy, and
        changes nothing; what only reads works."""
        self.store_root()
        self.assert_succeeds(self.slipway("run", "x", "--", "true"))
        self.write("context/Dockerfile", "FROM x\nENV A=1\n")
        before = self.check_after_kill("before")
        for number, words in ((errno.ENOLCK, "No locks available"), (errno.ENOSYS, "Function not implemented"),
                              (errno.EOPNOTSUPP, "Operation not supported")):
            for command in (("convert", f"oci:{self.layouts[0]}", "store:y"), ("gc",), ("rmi", "x"),
                            ("build", "-t", "built", self.path("context"))):
                result = self.without_locks(number, *command)
                self.assertEqual(result.returncode, 125, f"{command}: {result.stderr}")
                for text in (words, "has no locks, or its lock service is down", "try: put the store on a file system"):
                    self.assertIn(text, result.stderr, command)
                self.assertEqual(self.check_after_kill(f"{command} without locks"), before)
            for command in (("images",), ("inspect", "x"), ("run", "x", "--", "cat", "/etc/image"), ("convert", "x", self.path(f"out{number}.sqfs"))):
                result = self.without_locks(number, *command)
                self.assertEqual(result.returncode, 0, f"{command}: {result.stderr}")

    def test_a_full_disk(self):
        """At every size of the disk: no half image, what is missing is said, and with room again it works."""
        os.mkdir(self.path("small"))
        big = self.make_oci_layout([[File("big", os.urandom(3 << 20))]], compression="none", name="big")
        script = ('small=$2; mount -t tmpfs -o size="$1" none "$small" && shift 2 || exit 99; "$@" && exit 98; status=$?; '
                  '"$1" images --json || exit 97; mount -t tmpfs -o remount,size=64m none "$small" || exit 96; "$@" || exit 95; '
                  '"$1" images --json; ls "$SLIPWAY_STORE/tmp"; exit $status')
        for size in ("16k", "64k", "256k", "1m", "2m"):
            result = run([require_program("unshare"), "-Urm", "sh", "-c", script, "sh", size, self.path("small"), program(),
                          "convert", f"oci:{big}", "store:x"], env={**self.env, "SLIPWAY_STORE": self.path("small/store")})
            self.assert_status(result, 125)
            first, second = (json.loads(part) for part in (result.stdout.split("]")[0] + "]", result.stdout.split("]", 1)[1]))
            self.assertEqual(first, [], size)
            self.assertEqual([image["name"] for image in second], ["x:latest"], size)
            self.assertIn("No space left on device", result.stderr)
            if size in ("1m", "2m"):
                self.assertRegex(result.stderr, r"are free there, and 3\.\d MB are needed: \d.* are missing")

    def test_a_read_only_store_of_others(self):
        from small_root import make_root
        make_root(self.path("root"))
        self.assert_succeeds(self.slipway("convert", "root", "store:x"))
        shared = self.path("shared")
        os.rename(self.store, shared)
        subprocess.run(["chmod", "-R", "a-w", shared], check=True)
        mine = {"SLIPWAY_STORE": shared}
        try:
            self.assertEqual([image["name"] for image in self.slipway("images", "--json", env=mine).json()], ["x:latest"])
            result = self.assert_succeeds(self.slipway("run", "x", "--", "cat", "/etc/image", env=mine))
            self.assertEqual(result.stdout, "small root\n")
            self.assertIn("is read-only here", result.stderr)
            again = self.assert_succeeds(self.slipway("run", "x", "--", "true", env=mine))
            self.assertNotIn("making a squashfs", again.stderr)
            self.assert_succeeds(self.slipway("convert", "x", "out.sqfs", env=mine))
            for command in (("rmi", "x"), ("gc",), ("convert", f"oci:{self.layouts[0]}", "store:y")):
                self.assert_fails(self.slipway(*command, env=mine), f'cannot write to the image store "{shared}"',
                                  "try: name a store of your own: SLIPWAY_STORE=")
        finally:
            subprocess.run(["chmod", "-R", "u+w", shared], check=True)

    # --- size ---

    def test_gc_keeps_within_a_size(self):
        for n in (0, 1):
            self.assert_succeeds(self.slipway("convert", f"oci:{self.layouts[n]}", f"store:i{n}"))
            self.assert_succeeds(self.slipway("run", "--dry-run", f"i{n}", "--", "true"))
        self.write_to_store("packs/" + "3" * 64, "x" * 300_000)
        self.write_to_store("squashfs/" + "4" * 64 + ".sqfs", "x" * 300_000)
        dry = self.assert_succeeds(self.slipway("gc", "--dry-run", "--json")).json()
        self.assertEqual({item["name"] for item in dry["deleted"] if item["kind"] == "squashfs"}, {"squashfs/" + "4" * 64 + ".sqfs"})
        self.assertTrue(os.path.exists(os.path.join(self.store, "packs", "3" * 64)))
        report = self.assert_succeeds(self.slipway("gc", "--json")).json()
        self.assertEqual(report["deleted"], dry["deleted"])
        self.assertEqual((report["freed_bytes"], report["kept_bytes"]), (dry["freed_bytes"], dry["kept_bytes"]))
        squashfs = [image["squashfs"] for image in self.slipway("images", "--json").json()]
        os.utime(squashfs[0], (1000, 1000))
        size = report["kept_bytes"]
        report = self.assert_succeeds(self.slipway("gc", "--keep", str(size - 4096), "--json")).json()
        self.assertIn(os.path.relpath(squashfs[0], self.store), [item["name"] for item in report["deleted"]])
        self.assertTrue(os.path.exists(squashfs[1]), "it was used later")
        result = self.assert_succeeds(self.slipway("gc", "--keep", "1k"))
        self.assertIn("more than asked for", result.stderr)
        self.assertEqual(self.check_store("gc --keep"), ["i0:latest", "i1:latest"])
        self.assert_succeeds(self.slipway("run", "--dry-run", "i0", "--", "true"))

    def test_the_limit_holds_by_itself(self):
        env = {"SLIPWAY_STORE_LIMIT": "200K"}
        self.write_to_store("packs/" + "3" * 64, "x" * 300_000)
        self.assert_succeeds(self.slipway("convert", f"oci:{self.layouts[0]}", "store:x", env=env))
        self.assertFalse(os.path.exists(os.path.join(self.store, "packs", "3" * 64)))
        self.assertEqual(self.check_store("limit"), ["x:latest"])
        result = self.slipway("convert", f"oci:{self.layouts[1]}", "store:y", env={"SLIPWAY_STORE_LIMIT": "much"})
        self.assertIn('"much" is no size', self.assert_succeeds(result).stderr)

    # --- deletion while images are started ---

    def store_root(self):
        from small_root import make_root
        make_root(self.path("root"))
        self.assert_succeeds(self.slipway("convert", "root", "store:x"))

    def test_a_squashfs_that_is_being_started_from_is_not_deleted(self):
        """Between finding the file and opening it to serve it, at the places where a start is longest."""
        self.store_root()
        self.assert_succeeds(self.slipway("run", "x", "--", "true"))
        squashfs = self.slipway("images", "--json").json()[0]["squashfs"]
        for place in ("container.user-namespace", "container.server-started", "container.assembled"):
            start = subprocess.Popen([program(), "run", "x", "--", "cat", "/etc/image"], stdout=subprocess.PIPE, text=True,
                                     env=dict(self.env, SLIPWAY_FAULT=place + ":stop"), stderr=subprocess.PIPE)
            os.waitid(os.P_PID, start.pid, os.WSTOPPED | os.WNOWAIT)
            report = self.assert_succeeds(self.slipway("gc", "--keep", "1k", "--json")).json()
            self.assertNotIn("squashfs", [item["kind"] for item in report["deleted"]], place)
            self.assertTrue(os.path.exists(squashfs), place)
            start.send_signal(signal.SIGCONT)
            out, error = start.communicate(timeout=30)
            self.assertEqual((start.returncode, out), (0, "small root\n"), f"{place}: {error}")
        self.check_leaks()  # the last server has let go of the file
        report = self.assert_succeeds(self.slipway("gc", "--keep", "1k", "--json")).json()
        self.assertIn("squashfs", [item["kind"] for item in report["deleted"]])
        self.assertFalse(os.path.exists(squashfs))

    def test_fifty_starts_while_everything_is_deleted(self):
        """Whoever finds the squashfs gone makes it again; nobody fails for it."""
        self.store_root()
        script = 'while [ ! -e "$1" ]; do "$2" gc --keep 1k >/dev/null 2>&1 && echo >> "$3"; done'
        counts = [self.write(f"deleted-{n}", "") for n in range(2)]
        deleters = [subprocess.Popen(["sh", "-c", script, "sh", self.path("stop"), program(), count], env=self.env)
                    for count in counts]

        def deleted():
            return min(os.path.getsize(count) for count in counts)
        try:
            made = rounds = 0
            deadline = time.monotonic() + 120  # how often they meet is chance: more rounds where it was seldom
            while rounds < 25 or ((made <= 3 or deleted() <= 5) and time.monotonic() < deadline):
                rounds += 1
                starts = [subprocess.Popen([program(), "run", "x", "--", "cat", "/etc/image"], stdout=subprocess.PIPE, text=True,
                                           env=dict(self.env, SLIPWAY_STORE_LIMIT="1K"), stderr=subprocess.PIPE) for _ in range(2)]
                for start in starts:
                    out, error = start.communicate(timeout=100)
                    self.assertEqual((start.returncode, out), (0, "small root\n"), error)
                    made += "making a squashfs" in error
        finally:
            self.write("stop", "")
            for deleter in deleters:
                deleter.wait(timeout=60)
        self.assertGreater(deleted(), 5, "hardly anything was deleted")
        self.assertGreater(made, 3, "no start had to make its image again")
        self.assertEqual(self.check_store("after fifty starts"), ["x:latest"])


if __name__ == "__main__":
    main()
