#!/usr/bin/env bash
# Make the image, run it, and compare its squashfs file with umoci's unpacking, name by name. Run as root.
# Must not: build or convert as root. Leaves the stored image, so that a second run is short; with KEEP=1 also the layout
# with gzip layers, build/torch/gzip, for tests/bench/run.sh convert.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=../../tests/lib/ordinary-user.sh
. "$top/tests/lib/ordinary-user.sh"
[ "$(id -u)" = 0 ] || { echo "recipes/torch/test.sh: owners and devices need root; run it with sudo" >&2; exit 1; }
bash "$top/packaging/install-deps.sh" build run test
ordinary_user_setup "$top"
cd "$source_dir"
build=${SLIPWAY_BUILD_DIR:-$source_dir/build/release}
if [ -z "${SLIPWAY_BUILD_DIR:-}" ]; then
    as_user cmake --preset release >/dev/null
    as_user cmake --build "$build" --target slipway -- -j "$(nproc)"
fi
slipway=$build/bin/slipway
work=$source_dir/build/torch
as_user mkdir -p "$work"
made=("$work/layout" "$work/torch.sqfs")
rm -rf "${made[@]}" "$work/gzip"
[ -n "${KEEP:-}" ] || made+=("$work/gzip")
trap 'rm -rf "${made[@]}"' EXIT

as_user "$slipway" -q inspect debian:bookworm >/dev/null 2>&1 || as_user "$slipway" bootstrap bookworm -t debian:bookworm
as_user "$slipway" build -t torch -o "$work/torch.sqfs" recipes/torch
as_user "$slipway" run "$work/torch.sqfs" -- python3 -c 'import torch; assert float(torch.ones(3) @ torch.ones(3)) == 3'
as_user "$slipway" convert torch "oci:$work/layout:torch"
as_user python3 -B tests/lib/gzip_layers.py "$work/layout" "$work/gzip" # umoci 0.4.7 reads no zstd
SLIPWAY_BUILD_DIR=$build PYTHONPATH=tests/lib python3 -B tests/system/umoci_root.py "$run_user" "$work/gzip:torch"
echo "recipes/torch: passed"
