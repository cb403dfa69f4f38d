"""Conversion: an OCI layout becomes a squashfs file, ours beside umoci + mksquashfs, and the work no one can avoid.

Must not: need privilege, or leave anything behind in $SLIPWAY_BENCH_DIR but its layouts.
"""
import argparse
import hashlib
import io
import json
import os
import platform
import shutil
import statistics
import subprocess
import tarfile
import zlib

import bench

PIECES = ("/usr/bin", "/usr/lib", "/usr/share", "/usr/include", "/usr/sbin", "/usr/libexec", "/usr/local")
KIND = "application/vnd.oci.image."
LIMITS = {"first": 0.75, "changed": 0.1, "memory": 100}  # of the work itself; of a first conversion; MB


class GzipBlob:
    """A layer blob that is compressed and digested while it is written: this process stays small, so that its own
    memory is not taken for that of the programs which it starts."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.tar, self.blob, self.size = hashlib.sha256(), hashlib.sha256(), 0
        self.packer = zlib.compressobj(6, zlib.DEFLATED, 31)

    def _put(self, data):
        self.file.write(data)
        self.blob.update(data)
        self.size += len(data)

    def write(self, data):
        self.tar.update(data)
        self._put(self.packer.compress(data))
        return len(data)

    def close(self):
        self._put(self.packer.flush())
        self.file.close()


def machine_files(limit_bytes):
    """Yield (path, size) of real files of this machine, up to a sum; the same ones each time."""
    for top in PIECES:
        for directory, names, files in os.walk(top):
            names.sort()
            for name in sorted(files):
                path = os.path.join(directory, name)
                if os.path.islink(path) or not os.path.isfile(path) or not os.access(path, os.R_OK):
                    continue
                limit_bytes -= os.path.getsize(path)
                if limit_bytes < 0:
                    return
                yield path, os.path.getsize(path)


class Maker:
    """An OCI layout in the making, layer by layer."""

    def __init__(self, directory):
        self.directory = directory
        self.layers, self.diff_ids = [], []
        os.makedirs(f"{directory}/blobs/sha256")
        with open(f"{directory}/oci-layout", "w", encoding="utf-8") as file:
            file.write('{"imageLayoutVersion": "1.0.0"}')

    def add_layer(self, members):
        """Append one gzip layer of (TarInfo, open file or None)."""
        temporary = f"{self.directory}/layer.tmp"
        blob = GzipBlob(temporary)
        with tarfile.open(fileobj=blob, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for info, data in members:
                tar.addfile(info, data)
        blob.close()
        os.rename(temporary, f"{self.directory}/blobs/sha256/{blob.blob.hexdigest()}")
        self.diff_ids.append(f"sha256:{blob.tar.hexdigest()}")
        self.layers.append({"mediaType": KIND + "layer.v1.tar+gzip", "digest": f"sha256:{blob.blob.hexdigest()}", "size": blob.size})

    def add_document(self, document, kind):
        data = json.dumps(document).encode()
        digest = hashlib.sha256(data).hexdigest()
        with open(f"{self.directory}/blobs/sha256/{digest}", "wb") as file:
            file.write(data)
        return {"mediaType": KIND + kind, "digest": f"sha256:{digest}", "size": len(data)}

    def finish(self):
        architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        config = self.add_document({"architecture": architecture, "os": "linux", "config": {},
                                    "rootfs": {"type": "layers", "diff_ids": self.diff_ids}}, "config.v1+json")
        manifest = self.add_document({"schemaVersion": 2, "mediaType": KIND + "manifest.v1+json", "config": config,
                                      "layers": self.layers}, "manifest.v1+json")
        manifest["annotations"] = {"org.opencontainers.image.ref.name": "bench"}
        with open(f"{self.directory}/index.json", "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 2, "manifests": [manifest]}, file)


def members_of(paths):
    for path in paths:
        info = tarfile.TarInfo(path.lstrip("/"))
        status = os.stat(path)
        info.size, info.mode, info.mtime = status.st_size, status.st_mode & 0o7777, int(status.st_mtime)
        with open(path, "rb") as data:
            yield info, data


def small_layer():
    data = os.urandom(1 << 20)
    info = tarfile.TarInfo("usr/changed")
    info.size = len(data)
    return [(info, io.BytesIO(data))]


def with_small_layer(layers, diff_ids, blobs, directory):
    """Make a layout of layers whose blobs are there, linked, and of one more that is new."""
    shutil.rmtree(directory + ".tmp", ignore_errors=True)
    maker = Maker(directory + ".tmp")
    for layer in layers:
        name = f"blobs/sha256/{layer['digest'][7:]}"
        os.link(f"{blobs}/{name}", f"{directory}.tmp/{name}")
    maker.layers, maker.diff_ids = list(layers), list(diff_ids)
    maker.add_layer(small_layer())
    maker.finish()
    os.rename(directory + ".tmp", directory)


def make_layouts(name, source, megabytes):
    """Two layouts that share all but the last, small layer: of this machine's files, or of an image."""
    layout, changed = (os.path.join(bench.WORK, f"{kind}-{name}") for kind in ("layout", "layout-changed"))
    if os.path.isdir(changed):
        return
    base = f"{layout}.base"
    for path in (base, layout):
        shutil.rmtree(path, ignore_errors=True)
    if source:
        shutil.copytree(source, base)
        manifest = manifest_of(base)
        layers, diff_ids = manifest["layers"], read_blob(base, manifest["config"])["rootfs"]["diff_ids"]
    else:
        files = [path for path, _ in machine_files(megabytes * 10**6)]
        maker = Maker(base)
        maker.add_layer(members_of(files[:len(files) // 3]))  # a base, and what is built on it
        maker.add_layer(members_of(files[len(files) // 3:]))
        layers, diff_ids = maker.layers, maker.diff_ids
    with_small_layer(layers, diff_ids, base, layout)
    with_small_layer(layers, diff_ids, base, changed)
    shutil.rmtree(base)


def read_blob(layout, descriptor):
    with open(f"{layout}/blobs/sha256/{descriptor['digest'][7:]}", encoding="utf-8") as text:
        return json.load(text)


def manifest_of(layout):
    with open(f"{layout}/index.json", encoding="utf-8") as text:
        return read_blob(layout, json.load(text)["manifests"][0])


def layers_of(layout):
    return [f"{layout}/blobs/sha256/{layer['digest'][7:]}" for layer in manifest_of(layout)["layers"]]


def remove(path):
    if os.path.isdir(path):
        subprocess.run(["chmod", "-R", "u+rwX", path], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)


def peers(layout, bundle, out, apptainer):
    """What others do for the same; Apptainer's newest version comes from Debian sid."""
    commands = {"umoci + mksquashfs": ["/bin/sh", "-c", f"{bench.need('umoci')} unpack --rootless --image {layout}:bench {bundle} && "
                                       f"{bench.need('mksquashfs')} {bundle}/rootfs {out} -quiet -no-progress -comp zstd "
                                       f"-Xcompression-level 3 -all-root"]}
    if apptainer:
        from peers import sid_root
        root = sid_root()
        commands["apptainer build"] = ["/usr/bin/env", f"PATH={root}/usr/bin:{os.environ['PATH']}", f"APPTAINER_TMPDIR={bench.WORK}",
                                       f"APPTAINER_CACHEDIR={bundle}", os.path.join(root, "usr/bin/apptainer"), "build", "--force",
                                       f"{out}.sif", f"oci:{layout}:bench"]
    return commands


def processor_seconds(argv):
    """What a command and its children take of the processors: what other work on the machine disturbs least."""
    before = os.times()
    bench.once(argv)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def report(times, peak, processors, runs):
    """Say what the figures are beside the limits."""
    median = {name: statistics.median(values) for name, values in times.items()}
    work, first, changed = (next((value for name, value in median.items() if name.startswith(start)), None)
                            for start in ("gunzip", "slipway, first", "slipway, one"))
    print(f"\nfirst conversion: {first / work:.2f} x the work itself (limit {LIMITS['first']}), "
          f"{peak:.0f} MB of memory at most (limit {LIMITS['memory']})")
    print(f"one small layer changed: {changed / first:.3f} x a first conversion (limit {LIMITS['changed']})")
    work, first, changed = processors
    print(f"processor time: the work itself {work:.2f} s, first conversion {first:.2f} s ({first / work:.2f} x), "
          f"one layer changed {changed:.2f} s ({changed / first:.3f} x a first)")
    if runs < 3:
        print("fewer than three runs: these are no figures to keep")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="?", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=1900, help="of files in the image")
    parser.add_argument("--layout", help="an OCI layout with gzip layers to take instead, such as the one of recipes/torch")
    parser.add_argument("--no-peers", action="store_true", help="ours and the work itself only")
    parser.add_argument("--apptainer", action="store_true", help="beside Apptainer of Debian sid, too")
    options = parser.parse_args()
    bench.need("zstd")
    name = os.path.basename(os.path.abspath(options.layout)) if options.layout else str(options.megabytes)
    # In a child, for the reason that GzipBlob gives.
    child = os.fork()
    if child == 0:
        make_layouts(name, options.layout, options.megabytes)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("the layouts could not be made")
    layout, changed, out, bundle, store = (os.path.join(bench.WORK, place) for place in (
        f"layout-{name}", f"layout-changed-{name}", "out.sqfs", "bundle", "store"))
    blobs = " ".join(layers_of(layout))
    first, again = "slipway, first time", "slipway, one small layer changed"

    def clean(name):
        for path in (bundle, out, out + ".sif") + (() if name == again else (store,)):
            remove(path)

    commands = {
        "gunzip | zstd -3 -T2 (the work itself)": ["/bin/sh", "-c", f"gunzip -c {blobs} | zstd -q -3 -T2 -c >{out}"],
        first: [bench.SLIPWAY, "-q", "convert", "-s", store, f"oci:{layout}", out],
        again: [bench.SLIPWAY, "-q", "convert", "-s", store, f"oci:{changed}", out]}
    if not options.no_peers:
        commands.update(peers(layout, bundle, out, options.apptainer))
    size = sum(os.path.getsize(path) for path in layers_of(layout))
    print(f"conversion of an OCI layout ({name}), {size / 1e6:.0f} MB in {len(layers_of(layout))} "
          f"gzip layers, {options.runs} runs in turn ({bench.machine()})")
    times = bench.in_turn(commands, options.runs, before=clean)
    bench.table("OCI layout -> squashfs, zstd 3", times, first, unit="s")
    clean(first)
    _, peak = bench.once(commands[first])
    processors = []
    for name in list(commands)[:3]:
        clean(name)
        processors.append(processor_seconds(commands[name]))
    report(times, peak, processors, options.runs)
    clean(first)


if __name__ == "__main__":
    main()
