# Configuring and building, bounded by cores and memory.
# Sourced, not run.
# shellcheck shell=bash

# One compiler of a source that includes LibTorch takes up to this much.
MIB_PER_JOB=1536

build_jobs() {
  if [ -n "${AMPCTL_JOBS:-}" ]; then
    echo "$AMPCTL_JOBS"
    return
  fi
  local cores by_memory
  cores=$(nproc)
  by_memory=$(awk -v mib="$MIB_PER_JOB" '/^MemAvailable/ { print int($2 / 1024 / mib) }' /proc/meminfo)
  ((by_memory >= 1)) || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# configure CMAKE_ARGUMENT...
configure() {
  require_space "$BUILD" "$DISK_BUILD_GIB" "building"
  run_logged configure cmake -S "$ROOT" -B "$BUILD" -G Ninja "$@"
  detail "$(grep -m 1 -- '-- LibTorch' "$LOG_DIR/configure.log" | cut -c 4-)"
  detail "$(grep -m 1 -- '-- CUDA kernels' "$LOG_DIR/configure.log" | cut -c 4-)"
}

# build TARGET...: "all" is everything.
build() {
  local jobs
  jobs=$(build_jobs)
  detail "$jobs compilers at once in $BUILD"
  run_logged build cmake --build "$BUILD" -j "$jobs" --target "$@"
  detail "$(last_line "$LOG_DIR/build.log")"
}

# For the programs alone; a build folder that already has tests keeps them.
configure_programs() {
  local tests=()
  [ -f "$BUILD/CMakeCache.txt" ] || tests=(-DAMPCTL_TESTS=OFF)
  configure -DAMPCTL_PYTHON="$VENV/bin/python" "${tests[@]}"
}
