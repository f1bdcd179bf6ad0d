#!/usr/bin/env bash
# Sets up what the tests need, builds everything and runs every test.
#
# Usage: scripts/test.sh [arguments of ctest...]      for example: scripts/test.sh -R checkpoint
#
# Ends with `N passed, N failed, N skipped`, counting test cases; exit code 1 when one failed. Tests that need a
# GPU, or data that is not here, are skipped, each with its reason.
#
# Environment: as for scripts/quickstart.sh.
set -euo pipefail
. "$(dirname "$0")/lib/setup.sh"

case " $* " in *' --help '* | *' -h '*) show_help "$0"; exit 0 ;; esac

STEPS=4

step "System packages"
[ -n "${AMPCTL_SKIP_SYSTEM:-}" ] || require_supported_system
apt_install "${APT_BUILD[@]}" "${APT_TESTS[@]}"

step "Python packages"
install_python_packages
pip_install tests "${PIP_TESTS[@]}"

step "Building the programs and the tests"
configure -DAMPCTL_TESTS=ON -DAMPCTL_PYTHON="$VENV/bin/python"
build all

step "Testing"
run_tests "$(nproc)" "$@"
