#!/usr/bin/env bash
# The same training under torchrun, for places whose tools expect it; needs a Python with torch. Call this on every
# node with the same arguments.
#
#   NNODES=2 RDZV=node1:29400 JOB=resnet50 configs/cluster/torchrun.sh [arguments of `ampctl train`...]
#
# One node: configs/cluster/torchrun.sh. Explained in docs/distributed.md.
set -euo pipefail

NNODES=${NNODES:-1}
GPUS=${GPUS:-gpu}            # processes a node: a number, or gpu for one a GPU
RDZV=${RDZV:-localhost:0}    # host:port of the rendezvous, the same on all nodes; localhost:0 for one node
JOB=${JOB:-ampctl}

# --no-python: ampctl is no script. --max-restarts restarts after any exit code but 0, so also after 2 (configuration)
# and 75 (stopped after a checkpoint); 0 leaves that to whoever started torchrun. torchrun itself ends with 1 then: the
# ranks' own codes are in its report. SIGUSR1 must be in --signals-to-handle, or it kills torchrun and orphans ranks.
exec torchrun --no-python --nnodes "$NNODES" --nproc-per-node "$GPUS" --max-restarts "${MAX_RESTARTS:-0}" \
  --rdzv-backend c10d --rdzv-endpoint "$RDZV" --rdzv-id "$JOB" \
  --signals-to-handle SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1 \
  ampctl train --config "${CONFIG:-configs/resnet50.yaml}" "$@"
