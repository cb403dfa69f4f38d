#!/usr/bin/env bash
# From a Dockerfile to a trained model, one container per rank, on a fresh Debian or Ubuntu machine.
# Installs what is missing, builds Slipway, makes a base image, builds the recipe offline into one squashfs file, and
# trains LeNet on real handwritten digits with mpiexec, one container per rank, as an ordinary user.
# A second run reuses what is built. Settings: RANKS (2), EPOCHS (30), MPIEXEC (mpiexec).
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=../../tests/lib/ordinary-user.sh
. "$top/tests/lib/ordinary-user.sh"
ranks=${RANKS:-2}
epochs=${EPOCHS:-30}
mpiexec=${MPIEXEC:-mpiexec}
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
base="$(. /etc/os-release && echo "$ID"):$suite"

report=()
begin() { # NAME: one stage starts
    stage=$1
    stage_began=$(date +%s.%N)
    echo "== $stage"
}
end() { # the stage ended
    report+=("$(awk -v a="$stage_began" -v b="$(date +%s.%N)" -v n="$stage" 'BEGIN { printf "  %-42s %7.1f s", n, b - a }')")
}

begin "packages"
bash "$top/packaging/install-deps.sh" build run
end

begin "Slipway itself"
ordinary_user_setup "$top"
cd "$source_dir"
as_user cmake --preset release >/dev/null
as_user cmake --build build/release -- -j "$(nproc)"
end
slipway=$source_dir/build/release/bin/slipway
image=$source_dir/build/quickstart/digits.sqfs
as_user mkdir -p build/quickstart

begin "base image $base"
if as_user "$slipway" -q inspect "$base" >/dev/null 2>&1; then
    echo "$base is stored already"
else
    as_user "$slipway" bootstrap "$suite" -t "$base"
fi
end

begin "image from recipes/quickstart/Dockerfile"
as_user rm -f "$image"
as_user "$slipway" build -t quickstart --network none --preload train --build-arg "BASE=$base" -o "$image" recipes/quickstart
end

# Open MPI refuses more ranks than cores unless told; Hydra does not ask.
launch=("$mpiexec" -n "$ranks")
if "$mpiexec" --version 2>/dev/null | grep -q 'Open MPI\|OpenRTE' && [ "$(nproc)" -lt "$ranks" ]; then
    launch+=(--oversubscribe)
fi
train=(--model lenet)
out=build/quickstart

inside() { # EPOCHS
    as_user "${launch[@]}" "$slipway" run "$image" -- slipway-train --data /data/digits "${train[@]}" --epochs "$1"
}
outside() { # EPOCHS
    as_user "${launch[@]}" "$source_dir/build/release/bin/slipway-train" --data recipes/quickstart/data "${train[@]}" --epochs "$1"
}
throughput() { awk '$1 == "throughput" { print $2 }'; }
median() { sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }
figures=$(mktemp -d)
trap 'rm -rf "$figures"' EXIT

begin "training inside, $ranks ranks, one container each"
inside "$epochs" </dev/null | tee "$figures/log"
accuracy=$(awk '/^test accuracy/ { print $3 }' "$figures/log")
end

begin "training inside and outside in turn, 5 times"
for turn in 1 2 3 4 5; do
    inside $((4 * epochs)) </dev/null 2>/dev/null | throughput >>"$figures/inside"
    outside $((4 * epochs)) </dev/null 2>/dev/null | throughput >>"$figures/outside"
    echo "turn $turn: inside $(tail -n 1 "$figures/inside") images/s, outside $(tail -n 1 "$figures/outside") images/s"
done
end

echo
echo "test accuracy      $accuracy of 360 test digits"
paste "$figures/inside" "$figures/outside" | awk '{ print $1 / $2 }' >"$figures/ratio"
echo "images/s inside    $(median <"$figures/inside") (median of 5)"
echo "images/s outside   $(median <"$figures/outside")"
echo "inside / outside   $(median <"$figures/ratio")"
echo "image size         $(stat -c %s "$image" | awk '{ printf "%.1f MB", $1 / 1e6 }') ($image)"
echo "time of each stage:"
printf '%s\n' "${report[@]}"
awk -v a="$accuracy" 'BEGIN { exit !(a >= 0.96) }' || {
    echo "quickstart: error: the test accuracy $accuracy is below 0.96" >&2
    exit 1
}
