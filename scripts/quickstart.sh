#!/usr/bin/env bash
# Sets up ampctl and trains its first model: from a bare Debian 12 or Ubuntu 24.04 to an evaluated network.
#
# Usage: scripts/quickstart.sh [--seed N] [arguments of `ampctl train`...]
#
# Installs what is missing (system packages as root or by sudo; Python packages into .venv), builds the programs
# into build/, makes the data set of handwritten digits in .data/digits, then trains and evaluates a small
# network in runs/quickstart-<number>. Called again it installs and builds nothing and trains a new run.
#
# Environment: AMPCTL_JOBS=N compilers at once; AMPCTL_BUILD_DIR, AMPCTL_VENV other folders;
# AMPCTL_SKIP_SYSTEM=1 leaves system packages to you.
set -euo pipefail
. "$(dirname "$0")/lib/setup.sh"

case " $* " in *' --help '* | *' -h '*) show_help "$0"; exit 0 ;; esac

STEPS=5
DIGITS=.data/digits
cd "$ROOT"

next_run() {
  local n=1
  while [ -e "runs/quickstart-$n" ]; do n=$((n + 1)); done
  echo "runs/quickstart-$n"
}

# chosen_output ARGUMENT...: where `ampctl train` will write when its arguments say so.
chosen_output() {
  local output=''
  while (($#)); do
    case $1 in
      --output) output=${2:-} ;;
      --output=*) output=${1#*=} ;;
    esac
    shift
  done
  echo "$output"
}

step "System packages"
[ -n "${AMPCTL_SKIP_SYSTEM:-}" ] || require_supported_system
apt_install "${APT_BUILD[@]}"

step "Python packages: LibTorch, the CUDA compiler, the data set"
install_python_packages

step "Building ampctl"
configure_programs
build ampctl ampctl-worker

step "Data: handwritten digits"
if [ -f "$DIGITS/images-idx3-ubyte" ] && [ -f "$DIGITS/labels-idx1-ubyte" ]; then
  detail "already in $DIGITS"
else
  "$VENV/bin/python" scripts/make_digits.py "$DIGITS" | sed 's/^/      /'
fi

step "Training and evaluating"
run=$(chosen_output "$@")
arguments=("$@")
if [ -z "$run" ]; then
  run=$(next_run)
  arguments+=(--output "$run")
fi
ampctl=$BUILD/bin/ampctl
status=0
"$ampctl" train --config configs/quickstart.yaml "${arguments[@]}" || status=$?
((status == 0)) || {
  say "ampctl train ended with exit code $status; what it wrote is in $run"
  exit "$status"
}
"$ampctl" eval "$run"

say
say "Done in $(elapsed "$SECONDS"). The run is in $run:"
say "  summary.csv and metrics.jsonl   what was measured"
say "  config.yaml                     the whole configuration, ready to repeat"
say "  checkpoints/best                the best weights, as safetensors"
say
say "What to try next:"
say "  export PATH=$BUILD/bin:\$PATH"
say "  ampctl inspect $run"
say "  ampctl train -c configs/quickstart.yaml --set amp.dtype=float32 --output runs/float32"
say "  ampctl plan -c configs/resnet50.yaml     what a larger run would do, without doing it"
say "  ampctl env                               what this machine can do"
