#!/usr/bin/env bash
# Unpack programs of Debian sid into DEST, so that they run on this host, natively, by their paths in there.
# Usage: sid-root.sh DEST PACKAGE...       prints nothing when DEST has them; remove DEST to renew them
# Needs: mmdebstrap, patchelf, flock and the mirror (SLIPWAY_SID_MIRROR, default deb.debian.org); no privilege.
# Must not: run a package's scripts, or let a program in DEST take a library of the host.
#
# Packages and what they depend on are extracted, not installed. Each program is then told to use the loader and the
# libraries in DEST; a run-path is searched by the loader itself, so that nothing is wrapped and nothing costs a start.
# DEST/usr/bin/ch-run and the like are run by their paths; DEST/versions lists what came. Many may ask at once.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '3,4s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$(dirname "$1")"
dest=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
triplet=$(uname -m)-linux-gnu

has() { # PACKAGE...: was each asked for when DEST was made?
    local package
    [ -f "$dest/asked" ] || return 1
    for package in "$@"; do grep -qxF -- "$package" "$dest/asked" || return 1; done
}

unpack() { # ROOT PACKAGE...
    local root=$1 log=$1.log deb
    shift
    # A mirror that stands still, as some clusters and test machines have, is good enough; signatures are checked.
    if ! mmdebstrap --mode=chrootless --variant=extract --skip=cleanup/apt \
        --aptopt='Acquire::Check-Valid-Until "false"' --include="$(IFS=,; echo "$*")" \
        sid "$root" "${SLIPWAY_SID_MIRROR:-http://deb.debian.org/debian}" >"$log" 2>&1; then
        cat "$log" >&2
        return 1
    fi
    for deb in "$root"/var/cache/apt/archives/*.deb; do basename "$deb" .deb; done |
        sed 's/%3a/:/' | cut -d_ -f1,2 --output-delimiter=' ' >"$root/versions"
    rm -rf "$root/var/cache/apt" "$root/var/lib/apt" "$root/usr/share/doc" "$root/usr/share/locale" "$log"
    # Apptainer finds its files relative to itself, below the prefix /usr (its starter below /usr/lib).
    ln -s ../etc "$root/usr/etc"
    ln -s ../var "$root/usr/var"
    ln -s ../../etc "$root/usr/lib/etc"
    ln -s ../../var "$root/usr/lib/var"
    printf '%s\n' "$@" | sort -u >"$root/asked"
}

make_runnable() { # ROOT: where the programs are now; they will run from $dest
    local root=$1 loader program
    loader=$(cd "$root" && find usr/lib usr/lib64 -name 'ld-linux-*.so.*' -type f -print -quit)
    find "$root/usr" -type f -perm /111 -print0 | while IFS= read -r -d '' program; do
        patchelf --print-interpreter "$program" >/dev/null 2>&1 || continue # a script, a library, a static program
        case "$program" in */libc.so.6) continue ;; esac
        # DT_RPATH, unlike DT_RUNPATH, holds for the libraries of libraries too.
        patchelf --set-interpreter "$dest/$loader" --force-rpath \
            --set-rpath "$dest/usr/lib/$triplet" "$program"
    done
}

has "$@" && exit 0
exec 9>"$dest.lock"
flock 9
has "$@" && exit 0
if [ -f "$dest/asked" ]; then # keep what others asked for
    mapfile -t packages < <(sort -u "$dest/asked" <(printf '%s\n' "$@"))
else
    mapfile -t packages < <(printf '%s\n' "$@" | sort -u)
fi
fresh=$(mktemp -d "$dest.new-XXXXXX")
trap 'rm -rf "$fresh"' EXIT
unpack "$fresh/root" "${packages[@]}"
make_runnable "$fresh/root"
[ ! -e "$dest" ] || mv "$dest" "$fresh/old"
mv "$fresh/root" "$dest"
