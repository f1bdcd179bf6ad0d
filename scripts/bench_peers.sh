#!/usr/bin/env bash
# Measures ampctl against PyTorch on this machine, in turn, and prints one table: both sides, the ratio, and what
# docs/performance.md asks for.
#
# Usage: scripts/bench_peers.sh [--quick] [--rounds N] [--only GROUPS] [--json FILE]
#   --quick        one round of short blocks: a first look
#   --rounds N     default 3; medians count
#   --only GROUPS  by commas: f16_b256, bf16_b256, small, memory, scaler, first_step, two_gpus; default: all
#   --json FILE    every figure of every round
#
# Needs an NVIDIA GPU, a build of ampctl, and a Python with torch and torchvision for CUDA. Each peer starts once and
# stays until the end; torch.compile of ResNet-50 takes about 50 s. A process's own GPU memory counts, so all fit
# together where a GPU has 80 GiB; on smaller ones take the groups one by one.
#
# Environment: AMPCTL_BUILD_DIR, default build; AMPCTL_VENV.
set -euo pipefail
. "$(dirname "$0")/lib/setup.sh"

[[ ${1:-} != -h && ${1:-} != --help ]] || { show_help "$0"; exit 0; }
ampctl=$BUILD/bin/ampctl
[[ -x $ampctl ]] || fail "$ampctl is missing" "Build first (scripts/quickstart.sh), or set AMPCTL_BUILD_DIR."
python=$VENV/bin/python
[[ -x $python ]] || python=$(command -v python3) || fail "python3 is missing" "The peers are PyTorch scripts."
"$python" -c 'import torch, torchvision; assert torch.cuda.is_available()' 2>/dev/null ||
  fail "$python has no torch and torchvision that see a GPU" "Set AMPCTL_VENV to an environment that has both, for CUDA."
exec "$python" "$ROOT/bench/bench_peers.py" --ampctl "$ampctl" "$@"
