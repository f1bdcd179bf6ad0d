// One test body, run on the CPU and, where there is one, on a GPU.
#pragma once

#include <ATen/Context.h>
#include <c10/core/Device.h>

#include "support/catch.h"
#include "support/skip.h"

/// Two test cases for `body`, a function of a c10::Device: the CPU's, and one with the tag [gpu] and those
/// that follow, for example "[long]" (too many launches to be looked at by compute-sanitizer).
#define AMPCTL_DEVICE_TEST_CASE(body, name, ...)                      \
  TEST_CASE(name) { body(c10::Device(c10::kCPU)); }                   \
  TEST_CASE(name ", on the GPU", "[gpu]" __VA_ARGS__) {               \
    if (!at::hasCUDA()) return ampctl::test::skip("there is no GPU"); \
    body(c10::Device(c10::kCUDA, 0));                                 \
  }
