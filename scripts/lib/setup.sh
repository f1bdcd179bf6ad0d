# What every script shares: where things are, versions, and the functions beside this file.
# Sourced, not run.
# shellcheck shell=bash
#
# AMPCTL_BUILD_DIR, AMPCTL_VENV: other places for the build and the Python environment.
# AMPCTL_JOBS: compilers at once. AMPCTL_SKIP_SYSTEM=1: system packages are somebody else's business.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=${AMPCTL_BUILD_DIR:-$ROOT/build}
VENV=${AMPCTL_VENV:-$ROOT/.venv}

. "$ROOT/scripts/versions.env"
. "$ROOT/scripts/lib/console.sh"
. "$ROOT/scripts/lib/system.sh"
. "$ROOT/scripts/lib/python.sh"
. "$ROOT/scripts/lib/build.sh"
. "$ROOT/scripts/lib/testing.sh"

# A script's own help is the comment at its top.
show_help() { sed -n '2,/^[^#]/{/^#/{s/^# \{0,1\}//;p}}' "$1"; }
