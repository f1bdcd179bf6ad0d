// The command line's grammar, and running what it asks for.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace ampctl::cli {

class CommandLine {
 public:
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Parses the arguments (without the program's name), runs the command and returns its exit code. Throws
  /// usage errors that name the nearest command or flag.
  int run(const std::vector<std::string>& arguments);

 private:
  struct Grammar;
  std::unique_ptr<Grammar> grammar_;
};

/// Long flags with '_' in their names become the same with '-'; all else stays as typed.
[[nodiscard]] std::vector<std::string> normalised(std::vector<std::string> arguments);

}  // namespace ampctl::cli
