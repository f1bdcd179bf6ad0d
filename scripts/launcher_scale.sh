#!/usr/bin/env bash
# Measures the launcher with hundreds of light processes on this machine (tests/launch/light_worker.cpp): how long
# they take to start and meet, to leave, and to end when one of them is killed.
#
# Usage: scripts/launcher_scale.sh [BUILD_FOLDER] [PROCESSES...]     default: build 64 128 256 512
set -euo pipefail
. "$(dirname "$0")/lib/setup.sh"

[[ ${1:-} != -h && ${1:-} != --help ]] || { show_help "$0"; exit 0; }
build=$(realpath "${1:-$ROOT/build}")
shift || true
(($#)) || set -- 64 128 256 512
ampctl=$build/bin/ampctl
light=$build/tests/launch/light_worker
for program in "$ampctl" "$light"; do
  [[ -x $program ]] || fail "$program is missing" "Build the targets ampctl and light_worker, or name the build folder."
done

folder=$(mktemp -d)
launcher=''
# A launcher that is killed takes its processes along.
trap '[[ -z $launcher ]] || kill -KILL "$launcher" 2>/dev/null || true; sleep 0.5; rm -rf "$folder"' EXIT
cat >"$folder/small.yaml" <<'YAML'
device: cpu
model: {name: lenet}
train: {epochs: 1}
data: {batch_size: 1, train: {format: synthetic, num_samples: 1, image_size: 28, channels: 1, num_classes: 10}}
YAML

now() { date +%s.%N; }
seconds() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", b - a }'; }
# start PROCESSES: begins a run and waits until all have met.
start() {
  rm -rf "$folder/run" "$folder/out"
  begun=$(now)
  "$ampctl" train -c "$folder/small.yaml" --output "$folder/run" --nproc-per-node "$1" \
    >"$folder/out" 2>"$folder/err" &
  launcher=$!
  until grep -q "^met $1\$" "$folder/out" 2>/dev/null; do
    kill -0 "$launcher" 2>/dev/null || fail "the run of $1 processes ended early" "$(tail -5 "$folder/err")"
    sleep 0.02
  done
  met=$(now)
}

export AMPCTL_WORKER=$light LIGHT_HOLD
printf '%10s %14s %16s %22s %22s\n' processes 'all met, s' 'SIGTERM→end, s' 'one killed→end, s' 'deaf, one killed, s'
for count; do
  LIGHT_HOLD=-1 LIGHT_DEAF='' start "$count"
  started=$(seconds "$begun" "$met")
  asked=$(now)
  kill -TERM "$launcher"
  wait "$launcher" || true
  left=$(seconds "$asked" "$(now)")
  ends=()
  for deaf in '' peers; do
    export LIGHT_DEAF=$deaf LIGHT_HOLD=-1
    start "$count"
    victim=$(pgrep -P "$launcher" | sed -n "$((count / 2 + 1))p")
    killed=$(now)
    kill -KILL "$victim"
    wait "$launcher" || true
    ends+=("$(seconds "$killed" "$(now)")")
  done
  unset LIGHT_DEAF
  printf '%10s %14s %14s %20s %22s\n' "$count" "$started" "$left" "${ends[@]}"
done
