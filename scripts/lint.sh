#!/usr/bin/env bash
# Checks format, structure and shell scripts, and runs clang-tidy over the sources.
#
# Usage: scripts/lint.sh [--fast] [--fix] [files...]
#   --fast   all but clang-tidy
#   --fix    reformat instead of complaining
#   files    run clang-tidy over these only; default: all of src, apps and tests
#
# Uses clang-format and clang-tidy 14, whose verdicts differ from other versions'.
set -euo pipefail
. "$(dirname "$0")/lib/setup.sh"

fast='' fix=''
while (($#)); do
  case $1 in
    -h | --help) show_help "$0"; exit 0 ;;
    --fast) fast=1 ;;
    --fix) fix=1 ;;
    -*) fail "unknown option $1" "See $0 --help" ;;
    *) break ;;
  esac
  shift
done

cd "$ROOT"
failed=()
# check NAME COMMAND...: runs on, so that one call shows everything.
check() {
  local name=$1
  shift
  if "$@"; then detail "$name: clean"; else failed+=("$name"); fi
}

sources() { find src apps tests bench -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' | sort; }

# clang-tidy knows no .cu files of this project's CUDA version, and bench/ is not part of the build.
tidy() {
  local pattern='.*/(src|apps|tests)/.*\.cpp$' database=$BUILD/clang-tidy output status=0
  (($# == 0)) || pattern="($(IFS='|'; echo "$*"))\$"
  output=$LOG_DIR/clang-tidy.log
  mkdir -p "$LOG_DIR"
  mkdir -p "$database"
  # clang cannot read GCC's precompiled headers, and sources must do without.
  sed -E 's/ -Winvalid-pch -include [^ ]*cmake_pch\.hxx//' "$BUILD/compile_commands.json" >"$database/compile_commands.json"
  run-clang-tidy-14 -quiet -p "$database" -j "$(build_jobs)" "$pattern" >"$output" 2>&1 || status=$?
  grep -E '(warning|error):' -A 3 "$output" | grep -v 'warnings generated' || true
  return "$status"
}

STEPS=$([ -n "$fast" ] && echo 2 || echo 3)
step "Tools"
[ -n "${AMPCTL_SKIP_SYSTEM:-}" ] || require_supported_system
apt_install "${APT_LINT[@]}"

step "Format, structure, scripts"
mapfile -t files < <(sources)
if [ -n "$fix" ]; then
  clang-format-14 -i "${files[@]}"
else
  check clang-format clang-format-14 --dry-run -Werror "${files[@]}"
fi
check includes python3 scripts/check_includes.py
check shellcheck shellcheck -x -P SCRIPTDIR scripts/*.sh scripts/lib/*.sh .ci/run

if [ -z "$fast" ]; then
  step "clang-tidy"
  [ -f "$BUILD/compile_commands.json" ] ||
    fail "clang-tidy needs a configured build in $BUILD" "Run scripts/test.sh first."
  check clang-tidy tidy "$@"
fi

((${#failed[@]} == 0)) || fail "not clean: ${failed[*]}" "Details are above; 'scripts/lint.sh --fix' repairs the format."
say "lint: clean"
