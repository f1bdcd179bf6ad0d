# The project's own Python environment: LibTorch and nvcc come in its packages, tests compare with them.
# Sourced, not run.
# shellcheck shell=bash

make_venv() {
  if ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
    python3 -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' ||
      fail "Python 3.11 or 3.12 is needed, and python3 is $(python3 --version 2>&1)" \
        "Put one of them first in PATH; LibTorch itself is not bound to a Python."
    run_logged venv python3 -m venv --clear "$VENV"
  fi
}

# pip_install GROUP REQUIREMENT...: installs pinned packages once. What was installed is remembered in a stamp
# that holds everything the result depends on, so that a second call costs nothing.
pip_install() {
  local group=$1 stamp wanted
  shift
  make_venv
  stamp=$VENV/.installed-$group
  wanted=$("$VENV/bin/python" --version; printf '%s\n' "$@" "${PIP_CONSTRAINTS[@]}")
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    detail "$group: all there"
    return
  fi
  detail "$group: $*"
  if ! "$VENV/bin/python" -c 'import torch' 2>/dev/null; then
    require_space "$VENV" "$DISK_PYTHON_GIB" "installing the Python packages"
    require_space "${TMPDIR:-/tmp}" 3 "unpacking the Python packages"
  fi
  printf '%s\n' "${PIP_CONSTRAINTS[@]}" "${PIP_RUN[@]}" "${PIP_NVCC[@]}" "${PIP_TESTS[@]}" >"$VENV/constraints.txt"
  run_logged "pip-$group" "$VENV/bin/python" -m pip install --no-cache-dir --no-compile --no-input --disable-pip-version-check \
    --progress-bar off --retries 3 --only-binary :all: --constraint "$VENV/constraints.txt" "$@"
  printf '%s\n' "$wanted" >"$stamp"
}

# True when an nvcc 13 of the system is found where cmake/AmpctlCuda.cmake looks for it.
system_has_nvcc() {
  local nvcc
  for nvcc in "${CUDACXX:-}" "${CUDA_HOME:-}/bin/nvcc" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    if [ -x "$nvcc" ] && "$nvcc" --version 2>/dev/null | grep -q 'release 13\.'; then return 0; fi
  done
  return 1
}

install_python_packages() {
  pip_install run "${PIP_RUN[@]}"
  if system_has_nvcc; then
    detail "nvcc: the system's"
  else
    pip_install nvcc "${PIP_NVCC[@]}"
  fi
}
