#!/usr/bin/env bash
# Install what is missing, build, run every test as an ordinary user, and close with ctest's summary.
# Usage: tests/run.sh [CTEST ARGUMENTS...]    for example: tests/run.sh -R unit/base
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=lib/ordinary-user.sh
. "$top/tests/lib/ordinary-user.sh"

bash "$top/packaging/install-deps.sh" build run test bench
ordinary_user_setup "$top"
cd "$source_dir"
echo "== building as $run_user in $source_dir/build/ci"
as_user cmake --preset ci >/dev/null
as_user cmake --build build/ci -- -j "$(nproc)"
if [ "$(id -u)" = 0 ] && [ $# = 0 ]; then
    echo "== comparing conversions with umoci's unpacking as root"
    SLIPWAY_BUILD_DIR="$source_dir/build/ci" PYTHONPATH="$source_dir/tests/lib" python3 -B "$source_dir/tests/system/umoci_root.py" "$run_user"
    echo "== testing two users at once, $run_user and nobody"
    SLIPWAY_BUILD_DIR="$source_dir/build/ci" PYTHONPATH="$source_dir/tests/lib" python3 -B "$source_dir/tests/fault/two_users.py" "$run_user"
fi
echo "== testing as $run_user"
as_user ctest --test-dir build/ci --output-on-failure -j "$(nproc)" "$@"
