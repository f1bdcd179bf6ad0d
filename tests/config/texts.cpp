#include "texts.h"

#include <fstream>
#include <functional>

#include "base/error.h"

namespace ampctl::test {
namespace {

std::string usage_message(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    return error.what();
  }
  return "";
}

}  // namespace

std::string minimal() {
  return "model: {name: mlp}\n"
         "data:\n"
         "  batch_size: 4\n"
         "  train: {format: synthetic, channels: 1, image_size: 8, num_classes: 10}\n"
         "train: {epochs: 1}\n";
}

config::ExperimentConfig minimal_config() { return config::load_text(minimal(), "minimal.yaml"); }

std::string message_of(const std::string& yaml) {
  return usage_message([&] { config::load_text(yaml, "e.yaml"); });
}

std::string message_of(const config::LoadRequest& request) {
  return usage_message([&] { config::load(request); });
}

std::string message_of_plan(const config::ExperimentConfig& config, const config::DatasetFacts& train,
                            const config::WorldFacts& world) {
  return usage_message([&] {
    config::ExperimentConfig on_device = config;
    on_device.device = "auto";
    config::resolve(on_device, train, std::nullopt, world);
  });
}

std::string write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
  return path.string();
}

}  // namespace ampctl::test
