# Everything that a file tree shows of an image, for comparison with what another program made of it.
# Must not: know Slipway; leave out a fact silently.
"""facts_of(DIRECTORY) walks a tree; differences(EXPECTED, FOUND) tells two walks apart."""
import errno
import hashlib
import os
import stat

CHUNK = 1 << 20
# Attributes that a squashfs cannot hold, and those that a running kernel invents.
LEFT_OUT = ("system.", "security.selinux")


def digest_of_file(path):
    """The SHA-256 of a file's bytes; its holes are not read, only counted as zeros."""
    digest, zeros = hashlib.sha256(), bytes(CHUNK)
    with open(path, "rb", buffering=0) as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        while at < size:
            try:
                data = min(os.lseek(file.fileno(), at, os.SEEK_DATA), size)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                data = size
            for start in range(at, data, CHUNK):
                digest.update(zeros[:min(CHUNK, data - start)])
            if data < size:
                os.lseek(file.fileno(), data, os.SEEK_SET)
                piece = file.read(CHUNK)
                if not piece:
                    raise AssertionError(f"{path} ends at {data} of {size}")
                digest.update(piece)
                data += len(piece)
            at = data
    return digest.hexdigest()


def attributes_of(path):
    return {name: os.getxattr(path, name, follow_symlinks=False).hex()
            for name in sorted(os.listxattr(path, follow_symlinks=False)) if not name.startswith(LEFT_OUT)}


def facts_of_one(path, digests):
    """Return (facts, inode or None); `digests` remembers those of hard links."""
    status = os.lstat(path)
    kind = stat.S_IFMT(status.st_mode)
    facts = {"type": kind, "mode": stat.S_IMODE(status.st_mode), "uid": status.st_uid, "gid": status.st_gid,
             "mtime": int(status.st_mtime)}
    if kind == stat.S_IFLNK:
        facts["target"] = os.readlink(path)
    elif kind in (stat.S_IFCHR, stat.S_IFBLK):
        facts["device"] = (os.major(status.st_rdev), os.minor(status.st_rdev))
    elif kind == stat.S_IFREG:
        facts["size"] = status.st_size
        if status.st_ino not in digests:
            digests[status.st_ino] = digest_of_file(path)
        facts["digest"] = digests[status.st_ino]
    if kind == stat.S_IFDIR:
        return facts, None
    facts["links"] = status.st_nlink
    return facts, status.st_ino


def facts_of(directory, without=()):
    """Return {path as bytes: facts} of a tree, its root as b""; names in `without`, below the root, are passed over.
    Names of one file carry the least of them."""
    top = os.fsencode(directory)
    passed_over = {os.fsencode(name) for name in without}
    tree, names_of, digests = {}, {}, {}
    waiting = [b""]
    while waiting:
        relative = waiting.pop()
        path = os.path.join(top, relative)
        facts, inode = facts_of_one(path, digests)
        facts["xattrs"] = attributes_of(path)
        tree[relative] = facts
        if inode is not None:
            names_of.setdefault(inode, []).append(relative)
        elif facts["type"] == stat.S_IFDIR:
            waiting += [os.path.join(relative, name) for name in os.listdir(path) if relative or name not in passed_over]
    for names in names_of.values():
        for name in names:
            tree[name]["same file as"] = min(names)
    return tree


def differences(expected, found, ignored=lambda path, fact: False):
    """Return one line for each difference of two walks; `ignored(path, fact)` lets one pass."""
    lines = []
    for path in sorted(expected.keys() | found.keys()):
        if path not in found or path not in expected:
            lines.append(f"{path!r}: only {'expected' if path in expected else 'found'}")
            continue
        for fact in sorted(expected[path].keys() | found[path].keys()):
            wanted, got = expected[path].get(fact), found[path].get(fact)
            if wanted != got and not ignored(path, fact):
                lines.append(f"{path!r}: {fact}: expected {wanted!r}, found {got!r}")
    return lines
