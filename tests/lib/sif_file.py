# Writes SIF files byte by byte, by the layout that Apptainer's library documents.
# Must not: use Slipway's code, or know how Slipway reads them.
import os
import struct
import uuid

HEADER_BYTES, DESCRIPTOR_BYTES, TABLE_AT, ALIGNMENT = 128, 585, 4096, 4096
PARTITION, DEFINITION = 0x4004, 0x4001
SQUASHFS, EXT3, ENCRYPTED_SQUASHFS, GOCRYPTFS = 1, 2, 5, 6
SYSTEM, PRIMARY_SYSTEM, DATA, OVERLAY = 1, 2, 3, 4
ARCHITECTURES = {"386": "01", "amd64": "02", "arm": "03", "arm64": "04", "ppc64le": "06", "riscv64": "12"}


def descriptor(kind, number, offset, size, *, extra=b"", used=True, link=0, name=b""):
    """One packed little-endian descriptor."""
    head = struct.pack("<iBIIIqqqqqqq", kind, used, number, 0xF0000001, link, offset, size, size, 1700000000, 1700000000, 0, 0)
    raw = head + name.ljust(128, b"\0") + extra.ljust(384, b"\0")
    assert len(raw) == DESCRIPTOR_BYTES
    return raw


def partition(number, offset, size, file_system=SQUASHFS, role=PRIMARY_SYSTEM, architecture="amd64", **more):
    code = ARCHITECTURES[architecture].encode().ljust(3, b"\0")
    return descriptor(PARTITION, number, offset, size, extra=struct.pack("<ii", file_system, role) + code, **more)


def header(descriptors, data_at, data_bytes, architecture="amd64", version=b"01", magic=b"SIF_MAGIC\0", count=48, table_at=TABLE_AT,
           table_bytes=48 * DESCRIPTOR_BYTES):
    launch = b"#!/usr/bin/env run-singularity\n".ljust(32, b"\0")
    texts = magic + version.ljust(3, b"\0") + ARCHITECTURES[architecture].encode().ljust(3, b"\0") + uuid.UUID(int=7).bytes
    return launch + texts + struct.pack("<8q", 1700000000, 1700000000, count - descriptors, count, table_at, table_bytes,
                                        data_at, data_bytes)


def write_sif(path, objects, **of_header):
    """Write a SIF of (make, data) pairs, where make(number, offset, size) gives the data's descriptor. Data are aligned as
    Apptainer aligns partitions. Returns the offsets of the data."""
    table, body, offsets = b"", b"", []
    at = 32768
    for number, (make, data) in enumerate(objects, 1):
        table += make(number, at + len(body), len(data))
        offsets.append(at + len(body))
        body += data + b"\0" * (-len(data) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(header(len(objects), at, len(body), **of_header).ljust(TABLE_AT, b"\0"))
        file.write(table.ljust(at - TABLE_AT, b"\0"))
        file.write(body)
    os.chmod(path, 0o755)
    return offsets
