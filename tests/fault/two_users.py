# Two users of one node at once, and one who squats on the other's session: needs root, to be both of them.
# Must not: run anything but the spawning of ranks as root.
"""Usage: two_users.py USER    tests/run.sh calls it where it was started as root; `nobody` is the other user."""
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile

from small_root import make_root, make_squashfs
from slipway_test import build_directory

SIZES = (64, 200)


def start(user, image, directory, *options):
    return subprocess.Popen([os.path.join(directory, "bin/slipway"), "run", *options, image, "--", "true"], user=user.pw_uid, group=user.pw_gid,
                            extra_groups=[], cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True,
                            env={"HOME": "/", "PATH": os.environ["PATH"], "TMPDIR": directory})


def finish(ranks):
    return [(rank.communicate(timeout=90)[1], rank.returncode) for rank in ranks]


def check(condition, what):
    if not condition:
        sys.exit(f"two_users: {what}")


def main():
    first, second = pwd.getpwnam(sys.argv[1]), pwd.getpwnam("nobody")
    directory = tempfile.mkdtemp(prefix="slipway-users-")
    try:
        os.chmod(directory, 0o755)
        image = make_squashfs(make_root(os.path.join(directory, "root")), os.path.join(directory, "image.sqfs"))
        os.chmod(image, 0o644)
        for part in "bin/slipway", "libexec/slipway/slipway-full":  # the build tree may be closed to nobody
            os.makedirs(os.path.join(directory, os.path.dirname(part)))
            shutil.copy(os.path.join(build_directory(), part), os.path.join(directory, part))
        for count in SIZES:
            ends = finish([start((first, second)[i % 2], image, directory) for i in range(count)])
            check(all(end == ("", 0) for end in ends), f"{count} ranks of two users: {[e for e in ends if e != ('', 0)][:3]}")
        plan = subprocess.run([os.path.join(directory, "bin/slipway"), "run", "--dry-run", "--session=mine", image, "--", "true"], user=first.pw_uid,
                              group=first.pw_gid, extra_groups=[], cwd="/", capture_output=True, text=True, check=True,
                              env={"HOME": "/", "PATH": os.environ["PATH"]})
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as squatter:
            squatter.bind("\0slipway-session-" + json.loads(plan.stdout)["session_key"])
            ends = finish([start(first, image, directory, "--session=mine") for _ in range(16)])
        check(all(status == 0 for _, status in ends), f"a squatter: {ends[0]}")
        check(all('user 0 occupies the name of the session "mine"; using a private one' in error for error, _ in ends),
              f"the squatter is not named: {ends[0]}")
        print("two users: passed")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
