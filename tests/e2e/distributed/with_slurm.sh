#!/usr/bin/env bash
# Runs a command with a real Slurm of one node, on loopback, that lives only as long as the command.
#
# Usage: with_slurm.sh COMMAND...        for example: with_slurm.sh srun -n 2 hostname
#
# Needs root and Debian's slurm-wlm and munge. Everything is in a temporary folder and on free ports; a Slurm of this
# machine is not touched. Exit code: the command's, or 77 when Slurm cannot be started here, with the reason.
set -euo pipefail

unable() { echo "no Slurm here: $1" >&2; exit 77; }

(($# > 0)) || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
[ "$(id -u)" = 0 ] || unable "its daemons need root"
for program in munged slurmctld slurmd srun sinfo; do
  command -v "$program" >/dev/null || unable "$program is missing (apt-get install slurm-wlm munge)"
done

folder=$(mktemp -d /tmp/with_slurm.XXXXXX)
chmod 711 "$folder"   # munge wants to be sure that nobody else can replace its socket
daemons=()
# Every process that this Slurm has started, by the variable that all inherit.
# shellcheck disable=SC2317  # called by stop
children() {
  local environment
  for environment in /proc/[0-9]*/environ; do
    if grep --quiet --null-data --line-regexp "SLURM_CONF=$folder/slurm.conf" "$environment" 2>/dev/null; then
      environment=${environment%/environ}
      echo "${environment#/proc/}"
    fi
  done
}
# shellcheck disable=SC2317  # called by the trap
stop() {
  local signal pid
  scancel --quiet --user root 2>/dev/null || true
  for signal in TERM KILL; do
    for pid in "${daemons[@]}" $(children); do kill -"$signal" "$pid" 2>/dev/null || true; done
    for _ in {1..50}; do
      kill -0 "${daemons[@]}" 2>/dev/null || break
      sleep 0.1
    done
  done
  for pid in $(children); do kill -KILL "$pid" 2>/dev/null || true; done
  rm -rf "$folder"
}
trap stop EXIT

start() {
  local name=$1
  shift
  "$@" >"$folder/$name.out" 2>&1 &
  daemons+=($!)
  disown   # or bash would report how it ended
}

# until_works SECONDS COMMAND...
until_works() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || return 1
    sleep 0.2
  done
}

mapfile -t ports < <(python3 - <<'PYTHON'
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets), sep="\n")
PYTHON
)
mkdir "$folder/munge" "$folder/state" "$folder/spool"
chmod 711 "$folder/munge"
head -c 1024 /dev/urandom >"$folder/munge/key"
chmod 400 "$folder/munge/key"
host=$(hostname -s)

# config_overrides: four processors whatever the machine has.
cat >"$folder/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=1
MpiDefault=none
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 RealMemory=1024 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$folder/slurm.conf

start munged munged --foreground --force --socket="$folder/munge/socket" --key-file="$folder/munge/key" \
  --log-file="$folder/munge/log" --pid-file="$folder/munge/pid" --seed-file="$folder/munge/seed"
until_works 10 test -S "$folder/munge/socket" || unable "munged: $(tail -n 3 "$folder/munged.out")"
start slurmctld slurmctld -D -c
start slurmd slurmd -D -c
until_works 30 sh -c 'sinfo --noheader --format=%T | grep -q idle' ||
  unable "slurmctld: $(tail -n 3 "$folder/slurmctld.out"); slurmd: $(tail -n 3 "$folder/slurmd.out")"

code=0
"$@" || code=$?
exit "$code"
