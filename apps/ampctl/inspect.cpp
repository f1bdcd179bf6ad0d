#include <chrono>
#include <filesystem>

#include <sys/stat.h>

#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "commands.h"
#include "inspection.h"
#include "output.h"

namespace ampctl::cli {
namespace fs = std::filesystem;
namespace {

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool looks_like_checkpoint(const fs::path& folder) {
  return is_file(folder / checkpoint::kManifestFile) || is_file(folder / checkpoint::kStateFile) ||
         folder.filename().string().rfind("step-", 0) == 0;
}

bool looks_like_run(const fs::path& folder) {
  return is_file(folder / "config.yaml") || is_file(folder / "metrics.jsonl") ||
         is_folder(folder / "checkpoints");
}

struct Report {
  Json json;
  std::string text;
  int exit_code = kExitDone;
};

Report examine(const fs::path& path) {
  constexpr const char* kExpected =
      "expected a run's folder, a checkpoint's folder (step-…) or a .safetensors file";
  if (is_file(path)) {
    if (path.extension() != ".safetensors") throw usage_error(path.string() + ": " + kExpected);
    Json tensors = inspect_tensors(path);
    std::string text = tensors_text(tensors);
    return {std::move(tensors), std::move(text)};
  }
  if (!is_folder(path)) throw usage_error(path.string() + " does not exist: " + kExpected);
  if (looks_like_checkpoint(path)) {
    Json found = inspect_checkpoint(fs::canonical(path));
    std::string text = checkpoint_text(found);
    const int code = found.at("whole").get<bool>() ? kExitDone : kExitEnvironment;
    return {std::move(found), std::move(text), code};
  }
  if (!looks_like_run(path)) throw usage_error(path.string() + " is none of the folders known: " + kExpected);
  Json run = inspect_run(path);
  std::string text = run_text(run);
  return {std::move(run), std::move(text)};
}

std::string shape_text(const Json& shape) {
  std::string text = "[";
  for (const auto& size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size.get<int64_t>());
  return text + "]";
}

}  // namespace

double unix_time(const fs::path& file) {
  struct stat info {};
  return stat(file.c_str(), &info) == 0 ? static_cast<double>(info.st_mtim.tv_sec) : 0.0;
}

std::string age_text(double unix_seconds) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return format_duration(std::chrono::duration<double>(now).count() - unix_seconds) + " ago";
}

Json inspect_tensors(const fs::path& path) {
  const checkpoint::SafetensorsFile file(path);
  uint64_t bytes = 0;
  uint64_t elements = 0;
  Json tensors = Json::array();
  for (const auto& [name, info] : file.tensors()) {
    tensors.push_back({{"name", name}, {"dtype", info.dtype}, {"shape", info.shape}, {"bytes", info.bytes}});
    bytes += info.bytes;
    elements += info.bytes / checkpoint::element_size(info.dtype);
  }
  return {{"kind", "tensors"},    {"path", path.string()},       {"bytes", bytes},
          {"elements", elements}, {"metadata", file.metadata()}, {"tensors", std::move(tensors)}};
}

std::string tensors_text(const Json& tensors) {
  const auto& list = tensors.at("tensors");
  std::string text = tensors.at("path").get<std::string>() + ": " +
                     group_digits(static_cast<int64_t>(list.size())) + " tensors, " +
                     group_digits(tensors.at("elements").get<int64_t>()) + " elements, " +
                     format_bytes(tensors.at("bytes").get<uint64_t>()) + "\n";
  for (const auto& [key, value] : tensors.at("metadata").items()) {
    text += "  " + printable(key) + ": " + printable(value.get<std::string>()) + "\n";
  }
  Table table({Align::left, Align::left, Align::left, Align::right}, 2);
  for (const auto& tensor : list) {
    table.add({printable(tensor.at("name").get<std::string>()), tensor.at("dtype").get<std::string>(),
               shape_text(tensor.at("shape")), format_bytes(tensor.at("bytes").get<uint64_t>())});
  }
  return text + table.str();
}

int run_inspect(const InspectOptions& options) {
  const Report report = examine(options.path);
  print(options.json ? report.json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n" : report.text);
  return report.exit_code;
}

}  // namespace ampctl::cli
