#!/usr/bin/env bash
# Builds ampctl from source on a GPU machine and runs the tests that need a GPU.
#
# Usage: scripts/gpu_check.sh [--all] [--kernels-for ARCHITECTURES] [tests of Catch2's language...]
#   --all                        every test, not only those tagged [gpu]
#   --kernels-for ARCHITECTURES  as CMAKE_CUDA_ARCHITECTURES; default: the GPU found
#   tests                        for example '[amp]' 'Autocast*'; default: [gpu]
#
# Installs nothing and needs no network: python3's torch 2.11 (or .venv's), CUDA 13, cmake, ninja and the
# libraries named in scripts/versions.env must be there. Ends with `N passed, N failed, N skipped`.
#
# Environment: AMPCTL_BUILD_DIR, default /tmp/ampctl-gpu-check; AMPCTL_VENV; AMPCTL_JOBS.
set -euo pipefail
AMPCTL_BUILD_DIR=${AMPCTL_BUILD_DIR:-/tmp/ampctl-gpu-check}
LOG_DIR=${LOG_DIR:-$AMPCTL_BUILD_DIR/logs}
. "$(dirname "$0")/lib/setup.sh"

architectures=''
filter='[gpu]'
while (($#)); do
  case $1 in
    -h | --help) show_help "$0"; exit 0 ;;
    --all) filter='' ;;
    --kernels-for) architectures=${2:?"--kernels-for needs an architecture, for example 90"}; shift ;;
    -*) fail "unknown option $1" "See $0 --help" ;;
    *) break ;;
  esac
  shift
done
# A list for CMake, which hands each word to the test programs.
(($# == 0)) || filter=$(IFS=';'; echo "$*")

STEPS=3
step "What is here"
nvidia-smi -L || fail "no NVIDIA GPU answers (nvidia-smi -L)" "Run this on a machine with a GPU and its driver."
python=$VENV/bin/python
[ -x "$python" ] || python=$(command -v python3) || fail "python3 is missing" "It is asked where LibTorch is."
"$python" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda, "GPU", torch.cuda.is_available())' ||
  fail "$python has no torch" "Set AMPCTL_VENV to an environment that has torch 2.11 for CUDA 13."

step "Building the programs and the tests"
configure -DAMPCTL_TESTS=ON -DAMPCTL_PYTHON="$python" -DAMPCTL_TEST_FILTER="$filter" \
  ${architectures:+-DCMAKE_CUDA_ARCHITECTURES="$architectures"}
build all

step "Testing"
# One program at a time: they share the GPU, and some of them measure.
run_tests 1
