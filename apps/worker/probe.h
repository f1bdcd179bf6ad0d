// `ampctl-worker --probe`: what only LibTorch knows about this machine.
#pragma once

namespace ampctl::worker {

/// Prints one JSON object (its fields: launch/probe.h) to standard output and returns the exit code. Works
/// without a GPU, a driver or CUDA; a field that does not apply is null.
int run_probe();

}  // namespace ampctl::worker
