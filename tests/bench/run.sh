#!/usr/bin/env bash
# Run one benchmark: ours, a peer and the limit in one run, as an ordinary user.
# Usage: tests/bench/run.sh startup|read|convert|train [ARGUMENTS...]
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=../lib/ordinary-user.sh
. "$top/tests/lib/ordinary-user.sh"
name=${1:?usage: tests/bench/run.sh startup|read|convert|train [ARGUMENTS...]}
shift
case "$name" in startup | read | convert | train) ;; *) echo "no benchmark '$name' (startup, read, convert, train)" >&2 && exit 2 ;; esac
bash "$top/packaging/install-deps.sh" build run bench
ordinary_user_setup "$top"
cd "$source_dir"
as_user cmake --preset release >/dev/null
target=slipway
[ "$name" != train ] || target=all
as_user cmake --build build/release --target "$target" -- -j "$(nproc)"
as_user mkdir -p build/bench
if [ "$name" = read ] && [ "$(id -u)" = 0 ]; then # empties caches and mounts for the kernel's row; measures as the user
    as_user env SLIPWAY_BUILD_DIR="$source_dir/build/release" SLIPWAY_BENCH_DIR="$source_dir/build/bench" \
        python3 -B tests/bench/read.py --images-only "$@"
    chmod a+rx "$source_dir/build/bench"
    env HOME="$run_home" SLIPWAY_BUILD_DIR="$source_dir/build/release" SLIPWAY_BENCH_DIR="$source_dir/build/bench" \
        python3 -B tests/bench/read.py --user "$run_user" "$@"
    exit
fi
as_user env SLIPWAY_BUILD_DIR="$source_dir/build/release" SLIPWAY_BENCH_DIR="$source_dir/build/bench" \
    python3 -B "tests/bench/$name.py" "$@"
