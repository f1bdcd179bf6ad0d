// Writing results to standard output.
#pragma once

#include <string>

namespace ampctl::cli {

/// Opens /dev/null in place of standard streams that are closed, so that no file opened later becomes one of
/// them.
void ensure_standard_streams();

/// Writes all of it to standard output. A reader that went away (`| head -1`) is no error; anything else,
/// such as a full disk, is an environment error.
void print(const std::string& text);

}  // namespace ampctl::cli
