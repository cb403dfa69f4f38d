#!/usr/bin/env bash
# Install what Slipway needs from the distribution's packages; nothing is fetched from anywhere else.
# Usage: install-deps.sh [build|run|test|bench|all]...     (default: build run)
# Must not: build anything, or touch the machine beyond its package manager.
set -euo pipefail

groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(build run)
case " ${groups[*]} " in *" all "*) groups=(build run test bench) ;; esac

# build: compile Slipway and both MPI transports.  run: bootstrap base images, launch ranks.
# test:  what the tests compare against.           bench: the peers the benchmarks run beside.
apt_build=(g++ python3 cmake ninja-build ccache pkg-config patchelf file
    libfmt-dev nlohmann-json3-dev libcli11-dev libarchive-dev zlib1g-dev libzstd-dev liblzma-dev liblz4-dev libbz2-dev liblzo2-dev
    libssl-dev nettle-dev libseccomp-dev libfuse3-dev libsquashfuse-dev libsquashfs-dev libisal-dev libcurl4-openssl-dev
    libdnnl-dev libopenmpi-dev openmpi-bin libmpich-dev mpich)
apt_run=(mmdebstrap debian-archive-keyring ca-certificates openmpi-bin mpich libcurl4 libisal2 libsqlite3-0)
apt_test=(bindfs catch2 python3 squashfs-tools umoci mmdebstrap attr procps util-linux git busybox
    docker-registry skopeo apache2-utils openssl munge slurmctld slurmd slurm-client charliecloud patchelf
    man-db groff-base mandoc apparmor rpm libsqlite3-0 zip)
apt_bench=(bubblewrap charliecloud squashfuse umoci squashfs-tools zstd python3 mmdebstrap patchelf util-linux)

dnf_build=(gcc-c++ python3 cmake ninja-build ccache pkgconf-pkg-config patchelf file
    fmt-devel json-devel cli11-devel libarchive-devel zlib-devel libzstd-devel xz-devel lz4-devel bzip2-devel lzo-devel
    openssl-devel libseccomp-devel fuse3-devel squashfuse-devel squashfs-tools-ng-devel isa-l-devel libcurl-devel
    onednn-devel openmpi-devel mpich-devel)
dnf_run=(mmdebstrap debian-keyring ca-certificates openmpi mpich libcurl isa-l sqlite-libs)
dnf_test=(bindfs catch-devel python3 squashfs-tools umoci mmdebstrap attr procps-ng util-linux git-core busybox
    docker-distribution skopeo httpd-tools openssl munge slurm slurm-slurmctld slurm-slurmd charliecloud patchelf
    man-db groff-base mandoc apparmor-parser rpm-build sqlite-libs zip)
dnf_bench=(bubblewrap charliecloud charliecloud-builder squashfuse umoci squashfs-tools zstd python3 mmdebstrap patchelf util-linux)

die() {
    printf 'install-deps: error: %s\n' "$*" >&2
    exit 1
}

packages_for() { # FAMILY: the package names of the asked groups, one a line
    local group name
    for group in "${groups[@]}"; do
        case "$group" in build | run | test | bench) ;; *) die "no such group '$group' (build, run, test, bench, all)" ;; esac
        name="$1_$group[@]"
        printf '%s\n' "${!name}"
    done | sort -u
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "packages are missing and neither root nor sudo is at hand; ask an administrator to run: $*"
    fi
}

if command -v apt-get >/dev/null; then
    mapfile -t wanted < <(packages_for apt)
    missing=()
    for package in "${wanted[@]}"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        echo "install-deps: all ${#wanted[@]} packages are there (${groups[*]})"
        exit 0
    fi
    echo "install-deps: installing ${#missing[@]} packages: ${missing[*]}"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq update
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 \
        install --no-install-recommends "${missing[@]}" >/dev/null
elif command -v dnf >/dev/null; then
    mapfile -t wanted < <(packages_for dnf)
    missing=()
    for package in "${wanted[@]}"; do rpm -q --quiet --whatprovides "$package" || missing+=("$package"); done
    if [ ${#missing[@]} -eq 0 ]; then
        echo "install-deps: all ${#wanted[@]} packages are there (${groups[*]})"
        exit 0
    fi
    # Most development files are in EPEL and CRB on the RHEL family; Fedora needs neither.
    if [ -f /etc/redhat-release ] && ! grep -q Fedora /etc/redhat-release; then
        as_root dnf -y -q install epel-release dnf-plugins-core
        as_root dnf config-manager --set-enabled crb || as_root dnf config-manager --set-enabled powertools
    fi
    echo "install-deps: installing ${#missing[@]} packages: ${missing[*]}"
    as_root dnf -y -q install --setopt=install_weak_deps=False "${missing[@]}"
else
    die "neither apt-get nor dnf is here; install by hand what this file lists"
fi
echo "install-deps: done"
