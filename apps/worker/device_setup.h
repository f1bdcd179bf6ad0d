// The device of a run, LibTorch's process-wide switches and the seeds: everything that must be set before a
// model is made.
#pragma once

#include <cstdint>
#include <string>

#include <c10/core/Device.h>

#include "config/run_plan.h"
#include "events/event_sink.h"
#include "launch/worker_place.h"

namespace ampctl::worker {

/// Decides cuda | cpu | auto, with GPU number `place.local_rank`, and makes it the current device. Throws an
/// environment error for `cuda` where there is none, and where a host has more ranks than GPUs.
c10::Device choose_device(const std::string& wanted, const launch::WorkerPlace& place);

/// For people: "NVIDIA H200" or "CPU, 2 threads".
std::string device_name(c10::Device device);

/// Environment variables that libraries read when CUDA starts; call it before anything touches the device.
void prepare_environment(const config::ExperimentConfig& config);

/// Lets this thread enqueue everything on one stream of its own from here on: the default stream cannot be
/// captured, and the Reducer ties itself to the stream it is made on. Nothing on the CPU.
void use_own_stream(c10::Device device);

/// Checks the precision against the device (refused, or warned about when only emulated), sets TF32, cuDNN
/// and determinism switches and the number of threads, and seeds every default generator.
void set_up_device(const config::RunPlan& plan, c10::Device device, events::EventBus& bus);

}  // namespace ampctl::worker
