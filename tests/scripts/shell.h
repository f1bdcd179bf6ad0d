// Runs pieces of scripts/ as a shell or Python would.
#pragma once

#include <fstream>
#include <string>

#include "support/process.h"

namespace ampctl::test {

/// Runs bash code with the functions of scripts/lib loaded; `folder` holds its logs, build and environment.
inline ProcessResult shell(const std::filesystem::path& folder, const std::string& code) {
  const std::string lib = (source_dir() / "scripts/lib/setup.sh").string();
  return run({"bash", "-euo", "pipefail", "-c", ". '" + lib + "'\n" + code},
             {"LOG_DIR=" + (folder / "logs").string(), "AMPCTL_BUILD_DIR=" + (folder / "build").string(),
              "AMPCTL_VENV=" + (folder / "venv").string()});
}

/// Runs a Python program of scripts/, which needs nothing but Python itself.
inline ProcessResult python_script(const std::string& name, const std::string& argument) {
  const std::string interpreter = python().empty() ? "python3" : python();
  return run({interpreter, (source_dir() / "scripts" / name).string(), argument});
}

inline void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ampctl::test
