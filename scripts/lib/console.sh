# Steps with elapsed time, long commands with a sign of life, failures with a reason and a way out.
# Sourced, not run.
# shellcheck shell=bash

LOG_DIR=${LOG_DIR:-$ROOT/.cache/logs}
HEARTBEAT_SECONDS=15
STEP=0
STEPS=${STEPS:-0}
SECONDS=0

say() { printf '%s\n' "$*"; }

detail() { printf '      %s\n' "$*"; }

# step TITLE: announces the next of $STEPS steps.
step() {
  STEP=$((STEP + 1))
  printf '[%d/%d] %s  (%s)\n' "$STEP" "$STEPS" "$*" "$(elapsed "$SECONDS")"
}

elapsed() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# fail REASON [WAY_OUT...]: ends the script.
fail() {
  printf '\nerror: %s\n' "$1" >&2
  shift
  local line
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

# run_logged NAME COMMAND...: output goes to a log; every few seconds its last line is shown, so that a long
# command is seen to live. On failure, explains from the log what went wrong and ends the script.
run_logged() {
  local name=$1 log pid status=0 start=$SECONDS beat=$SECONDS
  shift
  mkdir -p "$LOG_DIR"
  log=$LOG_DIR/$name.log
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  trap 'kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    if ((SECONDS - beat >= HEARTBEAT_SECONDS)); then
      beat=$SECONDS
      detail "$(elapsed $((SECONDS - start)))  $(last_line "$log")"
    fi
  done
  wait "$pid" || status=$?
  trap - INT TERM
  ((status == 0)) || explain_failure "$name" "$status" "$log"
}

last_line() { tail -c 2000 "$1" | tr '\r' '\n' | grep -v '^ *$' | tail -n 1 | cut -c 1-100; }

NETWORK_TROUBLE='Temporary failure (in name resolution|resolving)|Could not resolve|Network is unreachable'
NETWORK_TROUBLE+='|Connection (refused|timed out|reset)|Failed to fetch|NewConnectionError|NameResolutionError'
NETWORK_TROUBLE+='|Unable to connect|ConnectTimeout|ReadTimeout|ProxyError|Could not connect'
DISK_TROUBLE='No space left on device|Disk quota exceeded|not enough free space'
MEMORY_TROUBLE='Killed signal terminated program|Cannot allocate memory|out of memory allocating'

explain_failure() {
  local name=$1 status=$2 log=$3
  printf '\n--- the last lines of %s\n' "$log" >&2
  tail -n 25 "$log" >&2
  if grep -qE "$DISK_TROUBLE" "$log"; then
    fail "$name: the disk is full" "Free some space (see 'df -h') and run the same command again; it goes on from there."
  elif grep -qE "$MEMORY_TROUBLE" "$log"; then
    fail "$name: the machine ran out of memory" "Run again with fewer compilers at once: AMPCTL_JOBS=1 $0"
  elif grep -qE "$NETWORK_TROUBLE" "$log"; then
    fail "$name: a package server could not be reached" \
      "Check the network and, behind a proxy, https_proxy and /etc/apt/apt.conf.d; then run the same command again."
  fi
  fail "$name failed with exit code $status" "The whole output is in $log"
}
