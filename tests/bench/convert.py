"""Conversion: an OCI layout becomes a squashfs file, ours beside umoci + mksquashfs, and the work no one can avoid.

Must not: need privilege, or leave anything behind in $SLIPWAY_BENCH_DIR but its layout.
"""
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile

import bench

PAYLOAD_BYTES = 700 << 20


def add_blob(layout, data):
    digest = hashlib.sha256(data).hexdigest()
    with open(f"{layout}/blobs/sha256/{digest}", "wb") as out:
        out.write(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def add_layer(layout, manifest, config, fill):
    """Append one gzip layer whose members `fill` adds."""
    path = f"{layout}/layer.tmp"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        fill(tar)
    with open(path, "rb") as raw:
        data = raw.read()
    os.unlink(path)
    config["rootfs"]["diff_ids"].append("sha256:" + hashlib.sha256(data).hexdigest())
    blob = add_blob(layout, gzip.compress(data, 6, mtime=0))
    manifest["layers"].append({"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **blob})


def payload(tar):
    """Real files of this machine: libraries and programs, up to PAYLOAD_BYTES."""
    left = PAYLOAD_BYTES
    for top in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/gcc", "/usr/bin", "/usr/share", "/usr/include"):
        for directory, names, files in os.walk(top):
            names.sort()
            for name in sorted(files):
                path = os.path.join(directory, name)
                if os.path.islink(path) or not os.path.isfile(path) or not os.access(path, os.R_OK):
                    continue
                left -= os.path.getsize(path)
                if left < 0:
                    return
                info = tar.gettarinfo(path, "payload" + path)
                if info.isreg():
                    with open(path, "rb") as data:
                        tar.addfile(info, data)


def small(tar):
    info = tarfile.TarInfo("payload/changed")
    data = os.urandom(1 << 20)
    info.size = len(data)
    import io
    tar.addfile(info, io.BytesIO(data))


def make_layout(name, source=None, last=None):
    """The base image as an OCI layout with one more layer; `last` fills it."""
    layout = os.path.join(bench.WORK, name)
    if os.path.isdir(layout):
        return layout
    if source is None:
        root = f"{layout}.root"  # by way of a directory: its layer is gzip, which every peer reads
        subprocess.run([bench.SLIPWAY, "convert", bench.base_image(), root], check=True)
        subprocess.run([bench.SLIPWAY, "convert", root, f"oci:{layout}:bench"], check=True)
        shutil.rmtree(root)
    else:
        shutil.copytree(source, layout)
    with open(f"{layout}/index.json", encoding="utf-8") as text:
        index = json.load(text)
    entry = index["manifests"][0]
    read = lambda digest: json.load(open(f"{layout}/blobs/sha256/{digest[7:]}", encoding="utf-8"))
    manifest = read(entry["digest"])
    config = read(manifest["config"]["digest"])
    config.pop("history", None)
    add_layer(layout, manifest, config, last or payload)
    manifest["config"].update(add_blob(layout, json.dumps(config).encode()))
    entry.update(add_blob(layout, json.dumps(manifest).encode()))
    with open(f"{layout}/index.json", "w", encoding="utf-8") as text:
        json.dump(index, text)
    return layout


def layers_of(layout):
    index = json.load(open(f"{layout}/index.json", encoding="utf-8"))
    manifest = json.load(open(f"{layout}/blobs/sha256/{index['manifests'][0]['digest'][7:]}", encoding="utf-8"))
    return [f"{layout}/blobs/sha256/{layer['digest'][7:]}" for layer in manifest["layers"]]


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    umoci, mksquashfs = bench.need("umoci"), bench.need("mksquashfs")
    layout, changed = (os.path.join(bench.WORK, name) for name in ("layout", "layout-changed"))
    # In a child: what this process has held in memory would count as the peak of the programs that it starts.
    child = os.fork()
    if child == 0:
        make_layout("layout")
        make_layout("layout-changed", source=layout, last=small)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit("the layouts could not be made")
    out, bundle, store = (os.path.join(bench.WORK, n) for n in ("out.sqfs", "bundle", "store"))
    blobs = " ".join(layers_of(layout))

    def clean(name):
        for path in (bundle, out) + ((store,) if "changed" not in name else ()):
            subprocess.run(["chmod", "-R", "u+rwX", path], check=False, stderr=subprocess.DEVNULL)
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.path.exists(path) and os.unlink(path)

    threads = str(os.cpu_count())
    commands = {
        "gunzip | zstd -3 (the work itself)": ["/bin/sh", "-c", f"gunzip -c {blobs} | zstd -q -3 -T{threads} -c >{out}"],
        "slipway, first time": [bench.SLIPWAY, "-q", "convert", "-s", store, f"oci:{layout}", out],
        "slipway, one small layer changed": [bench.SLIPWAY, "-q", "convert", "-s", store, f"oci:{changed}", out],
        "umoci + mksquashfs": ["/bin/sh", "-c", f"{umoci} unpack --rootless --image {layout}:bench {bundle} && "
                               f"{mksquashfs} {bundle}/rootfs {out} -quiet -no-progress -comp zstd "
                               f"-Xcompression-level 3 -all-root"],
    }
    if not shutil.which("zstd"):
        del commands["gunzip | zstd -3 (the work itself)"]
    size = sum(os.path.getsize(path) for path in layers_of(layout))
    print(f"conversion of an OCI layout of {size / 1e6:.0f} MB in {len(layers_of(layout))} gzip layers, "
          f"{runs} runs in turn ({bench.machine()})")
    bench.table("OCI layout -> squashfs, zstd 3", bench.in_turn(commands, runs, before=clean),
                "slipway, first time", unit="s")
    clean("slipway")
    _, peak = bench.once(commands["slipway, first time"])
    print(f"\npeak resident memory of slipway: {peak:.0f} MB; output {os.path.getsize(out) / 1e6:.0f} MB")
    clean("end")


if __name__ == "__main__":
    main()
