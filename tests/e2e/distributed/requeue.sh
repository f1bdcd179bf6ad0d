#!/usr/bin/env bash
# Submits an sbatch file of two ranks on CPUs, stops it once by the signal that --signal sends, lets it be requeued and
# waits for its end. Inside with_slurm.sh.
#
# Usage: requeue.sh SBATCH_FILE RUN_FOLDER [arguments of `ampctl train`...]
set -euo pipefail

file=$1 run=$2
shift 2

steps() { if [ -f "$run/metrics.jsonl" ]; then wc -l <"$run/metrics.jsonl"; else echo 0; fi; }
# until_true COMMAND...: gives up after two minutes.
until_true() {
  local deadline=$((SECONDS + 120))
  until "$@"; do
    ((SECONDS < deadline)) || { echo "waited too long for: $*"; scontrol show job "$job"; cat "slurm-$job.out"; exit 1; }
    sleep 0.1
  done
}
trained() { (($(steps) > 4)); }
requeueing() { grep -q "requeueing job" "slurm-$job.out"; }
pending() { [ "$(squeue --noheader --job "$job" --format=%T)" = PENDING ]; }
ended() { scontrol show job "$job" | grep -qE 'JobState=(COMPLETED|FAILED|CANCELLED|TIMEOUT)'; }

job=$(sbatch --parsable --gpus-per-node=0 --ntasks-per-node=2 --cpus-per-task=1 --time=10 "$file" --output "$run" "$@")
until_true trained
scancel --signal=USR1 "$job"
until_true requeueing
until_true pending
# Slurm itself waits two minutes, for old credentials to expire; within the same seconds they are refused.
sleep 3
scontrol update JobId="$job" StartTime=now
until_true ended
cat "slurm-$job.out"
scontrol show job "$job"
