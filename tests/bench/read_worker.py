"""What the reading benchmark runs inside of a container: one piece of work, timed there, its figures as JSON on stdout.

Must not: need anything but the image's own Python, find and tar; measure how a container starts.
"""
import json
import os
import random
import subprocess
import sys
import time

PAGE = 4096


def walk():
    """find over the image's own file system, without /tmp, which is the host's and may be of the same one: seconds, and
    how many names it told."""
    begin = time.perf_counter()
    command = ["/usr/bin/find", "/", "-xdev", "-path", "/tmp", "-prune", "-o", "-print"]
    names = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
    return time.perf_counter() - begin, names.count(b"\n")


def read_all():
    """tar of everything into a pipe: seconds, and the bytes that came out. (Into /dev/null tar would read nothing.)"""
    begin, size = time.perf_counter(), 0
    command = ["/usr/bin/tar", "-cf", "-", "--one-file-system", "--exclude=./tmp", "-C", "/", "."]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0) as tar:
        buffer = bytearray(1 << 20)
        while count := tar.stdout.readinto(buffer):
            size += count
    return time.perf_counter() - begin, size


def random_pages(path, count):
    """Pages of one file, at places that are the same in each run: seconds, and the reads a second."""
    places = random.Random(4).choices(range(os.path.getsize(path) // PAGE), k=count)
    fd = os.open(path, os.O_RDONLY)
    begin = time.perf_counter()
    for place in places:
        os.pread(fd, PAGE, place * PAGE)
    seconds = time.perf_counter() - begin
    return seconds, count / seconds


def main():
    work = sys.argv[1]
    if work == "walk":
        told = {"cold": walk(), "again": walk()}
    elif work == "read":
        told = {"cold": read_all()}
    else:
        told = {"cold": random_pages(sys.argv[2], int(sys.argv[3]))}
    json.dump(told, sys.stdout)


main()
