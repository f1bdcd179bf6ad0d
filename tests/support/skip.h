// Skipping a test with its reason, in the same way with Catch2 2.x (which cannot skip) and 3.x.
#pragma once

#include <iostream>
#include <string>

#include "support/catch.h"

namespace ampctl::test {

/// Marks the running test case as skipped and prints `SKIPPED: <test case>: <reason>`, the line that
/// scripts/count_tests.py looks for. It does not leave the test: write
/// `if (!python_has({"torch"})) return test::skip("Python has no torch; scripts/test.sh installs it");`
inline void skip(const std::string& reason) {
  std::cout << "SKIPPED: " << Catch::getResultCapture().getCurrentTestName() << ": " << reason << std::endl;
  SUCCEED("skipped: " << reason);
}

}  // namespace ampctl::test
