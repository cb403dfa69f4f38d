# An OCI layout's layers as gzip, for programs that read no zstd.
# Must not: change what the layers hold; their diff ids stay.
"""Usage: gzip_layers.py LAYOUT NEW"""
import hashlib
import json
import os
import subprocess
import sys


def read(layout, digest):
    with open(f"{layout}/blobs/sha256/{digest[7:]}", encoding="utf-8") as file:
        return json.load(file)


def add_document(layout, document, old):
    data = json.dumps(document).encode()
    digest = hashlib.sha256(data).hexdigest()
    with open(f"{layout}/blobs/sha256/{digest}", "wb") as file:
        file.write(data)
    return {**old, "digest": f"sha256:{digest}", "size": len(data)}


def add_layer(source, layout, layer):
    """Write one layer as gzip and return its descriptor."""
    blob, temporary = f"{source}/blobs/sha256/{layer['digest'][7:]}", f"{layout}/layer.tmp"
    kind = layer["mediaType"]
    read_by = ["zstd", "-dc", blob] if kind.endswith("+zstd") else ["gzip", "-dc", blob] if kind.endswith("gzip") else ["cat", blob]
    with open(temporary, "wb") as out:
        unpack = subprocess.Popen(read_by, stdout=subprocess.PIPE)
        pack = subprocess.run(["gzip", "-nc", "-3"], stdin=unpack.stdout, stdout=out, check=True)
        unpack.stdout.close()
        if unpack.wait() != 0 or pack.returncode != 0:
            sys.exit(f"gzip_layers: {blob} cannot be read")
    digest = hashlib.sha256()
    with open(temporary, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    os.rename(temporary, f"{layout}/blobs/sha256/{digest.hexdigest()}")
    size = os.path.getsize(f"{layout}/blobs/sha256/{digest.hexdigest()}")
    return {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": f"sha256:{digest.hexdigest()}", "size": size}


def main():
    source, layout = sys.argv[1:]
    os.makedirs(f"{layout}/blobs/sha256")
    with open(f"{source}/index.json", encoding="utf-8") as file:
        index = json.load(file)
    for number, entry in enumerate(index["manifests"]):
        manifest = read(source, entry["digest"])
        manifest["config"] = add_document(layout, read(source, manifest["config"]["digest"]), manifest["config"])
        manifest["layers"] = [add_layer(source, layout, layer) for layer in manifest["layers"]]
        index["manifests"][number] = add_document(layout, manifest, entry)
    for name, document in (("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", index)):
        with open(f"{layout}/{name}", "w", encoding="utf-8") as file:
            json.dump(document, file)


if __name__ == "__main__":
    main()
