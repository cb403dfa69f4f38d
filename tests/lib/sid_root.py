# Where the programs of Debian sid are that tests compare with.
# Must not: install anything outside of that directory.
import os
import subprocess


def sid_program(name, *packages):
    """Return the path of a program of Debian sid, unpacked from `packages` if it is not there: below $SLIPWAY_SID_ROOT,
    else in the caller's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    root = os.environ.get("SLIPWAY_SID_ROOT") or os.path.join(cache, "slipway-tests/sid")
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sid-root.sh")
    subprocess.run([script, root, *packages], check=True)
    return os.path.join(root, "usr/bin", name)
