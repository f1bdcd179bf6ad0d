# Running the test programs and counting their test cases.
# Sourced, not run.
# shellcheck shell=bash

# Enough for everything that a program prints; ctest keeps only 1 KiB of a passing one by default.
CTEST_OUTPUT_BYTES=10000000

# run_tests PROGRAMS_AT_ONCE CTEST_ARGUMENT...: ends with the count and returns non-zero when a test failed.
run_tests() {
  local at_once=$1 report=$BUILD/ctest.xml python=$VENV/bin/python
  shift
  [ -x "$python" ] || python=python3
  rm -f "$report"
  # ctest's own verdict is not the last word: the count below also notices a program that ended too early.
  ctest --test-dir "$BUILD" --parallel "$at_once" --output-on-failure --output-junit "$report" \
    --test-output-size-passed "$CTEST_OUTPUT_BYTES" --test-output-size-failed "$CTEST_OUTPUT_BYTES" "$@" </dev/null || true
  "$python" "$ROOT/scripts/count_tests.py" "$report"
}
