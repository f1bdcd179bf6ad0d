#!/usr/bin/env bash
# Builds ampctl from source on a GPU machine and runs the tests that need a GPU.
#
# Usage: scripts/gpu_check.sh [--all | --sanitize] [--kernels-for ARCHITECTURES] [tests of Catch2's language...]
#   --all                        every test, not only those tagged [gpu]
#   --sanitize                   the kernels' tests alone, under compute-sanitizer's memcheck, racecheck and
#                                synccheck at once, which takes much longer
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
sanitize=''
while (($#)); do
  case $1 in
    -h | --help) show_help "$0"; exit 0 ;;
    --all) filter='' ;;
    --sanitize) sanitize=1 ;;
    --kernels-for) architectures=${2:?"--kernels-for needs an architecture, for example 90"}; shift ;;
    -*) fail "unknown option $1" "See $0 --help" ;;
    *) break ;;
  esac
  shift
done
# A list for CMake, which hands each word to the test programs.
(($# == 0)) || filter=$(IFS=';'; echo "$*")

# check_with TOOL TEST...: one of compute-sanitizer's tools over the kernels' tests.
check_with() {
  local tool=$1 log=$LOG_DIR/$1.log status=0
  shift
  compute-sanitizer --tool "$tool" --error-exitcode 9 "$BUILD/tests/kernels/test_kernels" "$(IFS=,; echo "$*")" >"$log" 2>&1 || status=$?
  local summary tests
  summary=$(grep SUMMARY "$log" | tail -1 | sed 's/^=* *//' || true)
  tests=$(grep -E '^(All tests passed|test cases:)' "$log" || true)
  detail "$tool: exit code $status, ${summary:-no summary}, ${tests:-no test ended}; $log"
  # Without a summary, and without tests, nothing was looked at.
  [ -n "$summary" ] && [ -n "$tests" ] && return "$status"
}

STEPS=3
step "What is here"
nvidia-smi -L || fail "no NVIDIA GPU answers (nvidia-smi -L)" "Run this on a machine with a GPU and its driver."
python=$VENV/bin/python
[ -x "$python" ] || python=$(command -v python3) || fail "python3 is missing" "It is asked where LibTorch is."
"$python" -c 'import torch; print("torch", torch.__version__, "CUDA", torch.version.cuda, "GPU", torch.cuda.is_available())' ||
  fail "$python has no torch" "Set AMPCTL_VENV to an environment that has torch 2.11 for CUDA 13."

if [ -n "$sanitize" ]; then
  PATH=$PATH:/usr/local/cuda/bin
  command -v compute-sanitizer >/dev/null || fail "compute-sanitizer is missing" "It is part of the CUDA toolkit; put its folder into PATH."
fi

step "Building the programs and the tests"
configure -DAMPCTL_TESTS=ON -DAMPCTL_PYTHON="$python" -DAMPCTL_TEST_FILTER="$filter" \
  ${architectures:+-DCMAKE_CUDA_ARCHITECTURES="$architectures"}
if [ -n "$sanitize" ]; then
  build test_kernels
  step "Testing under compute-sanitizer"
  # A kernel that stops the device on purpose is one that the tools report; a long test keeps them for more than minutes.
  (($# > 0)) || set -- '[gpu]~[device_assert]~[long]'
  checks=() failed=0
  for tool in memcheck racecheck synccheck; do
    check_with "$tool" "$@" &
    checks+=($!)
  done
  for check in "${checks[@]}"; do wait "$check" || failed=$((failed + 1)); done
  ((failed == 0)) || fail "$failed of ${#checks[@]} tools found something, or looked at nothing" "The logs are named above."
  say "compute-sanitizer: clean"
  exit 0
fi
build all

step "Testing"
# One program at a time: they share the GPU, and some of them measure.
run_tests 1
