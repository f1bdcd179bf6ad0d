#include "launch/error_file.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/file.h"

namespace ampctl::launch {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLargestErrorFile = uint64_t{1} << 20;

std::string to_text(const std::string& message, int exit_code) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  const Json file{{"message",
                   {{"message", message},
                    {"errorCode", exit_code},
                    {"extraInfo", {{"py_callstack", ""}, {"timestamp", std::to_string(seconds)}}}}}};
  constexpr int kOneLine = -1;
  return file.dump(kOneLine, ' ', false, Json::error_handler_t::replace);
}

void write(const fs::path& path, const std::string& text) {
  if (fs::exists(path)) return;
  fs::create_directories(path.parent_path());
  const fs::path temporary = path.string() + "." + std::to_string(getpid()) + ".tmp";
  std::ofstream file(temporary, std::ios::trunc);
  file << text;
  file.close();
  if (file) {
    fs::rename(temporary, path);
  } else {
    fs::remove(temporary);
  }
}

}  // namespace

void write_error_file(const fs::path& path, const std::string& message, int exit_code) noexcept {
  try {
    write(path, to_text(message, exit_code));
  } catch (const std::exception&) {
    // The failure that was to be reported goes on; a second one would only hide it.
    return;
  }
}

std::optional<WorkerError> read_error_file(const fs::path& path) {
  try {
    const Json message = Json::parse(read_text_file(path, kLargestErrorFile)).at("message");
    // torchrun's own programs may leave a bare text.
    if (message.is_string()) return WorkerError{message.get<std::string>(), 0};
    WorkerError error;
    error.message = message.at("message").get<std::string>();
    error.timestamp = std::stoll(message.at("extraInfo").at("timestamp").get<std::string>());
    return error;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace ampctl::launch
