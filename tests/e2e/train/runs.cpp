#include "e2e/train/runs.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

#include <zlib.h>

namespace ampctl::test {
namespace {

constexpr int kBright = 160;
constexpr int kNoise = 90;

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string draw(const Images& images, int label, std::mt19937& random) {
  std::string pixels;
  for (int row = 0; row < images.size; ++row) {
    for (int column = 0; column < images.size; ++column) {
      const bool bright = row * images.classes / images.size == label;
      pixels += static_cast<char>((bright ? kBright : 0) + static_cast<int>(random() % kNoise));
    }
  }
  return pixels;
}

template <class Take>
void for_each_image(const Images& images, const Take& take) {
  std::mt19937 random(images.seed);
  for (int index = 0; index < images.count; ++index) {
    const int label = static_cast<int>(random() % static_cast<unsigned>(images.classes));
    std::string image = draw(images, label, random);
    if (images.change) images.change(index, image);
    if (!images.keep || images.keep(index)) take(index, label, image);
  }
}

const Bytef* bytes_of(const std::string& text) { return reinterpret_cast<const Bytef*>(text.data()); }

std::string png_chunk(const std::string& type, const std::string& content) {
  const std::string covered = type + content;
  const auto crc = crc32(0, bytes_of(covered), static_cast<uInt>(covered.size()));
  return big_endian(static_cast<uint32_t>(content.size())) + covered + big_endian(static_cast<uint32_t>(crc));
}

// RGB, 8 bits, every row unfiltered (PNG specification, 9.2).
std::string png(const std::string& gray, int size) {
  std::string rows;
  for (int row = 0; row < size; ++row) {
    rows += '\0';
    for (int column = 0; column < size; ++column)
      rows.append(3,
                  gray[static_cast<size_t>(row) * static_cast<size_t>(size) + static_cast<size_t>(column)]);
  }
  uLongf bytes = compressBound(rows.size());
  std::string packed(bytes, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &bytes, bytes_of(rows), rows.size());
  packed.resize(bytes);
  const auto side = big_endian(static_cast<uint32_t>(size));
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", side + side + std::string("\x08\x02\0\0\0", 5)) +
         png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

}  // namespace

const char* const kMlpExperiment = R"(seed: 7
device: cpu
model: {name: mlp, hidden_sizes: [32], dropout: 0.2}
data:
  batch_size: 8
  num_workers: 1
  train:
    format: idx
    images: @DATA@/images
    labels: @DATA@/labels
    transforms:
      - random_crop: {size: 12, padding: 2}
      - horizontal_flip
      - normalize: {mean: [0.4], std: [0.3]}
  eval:
    transforms:
      - normalize: {mean: [0.4], std: [0.3]}
  split: {eval_fraction: 0.2}
train: {epochs: 4, gradient_accumulation_steps: 3, num_threads: 1}
optimizer: {name: adamw, lr: 0.01, weight_decay: 0.01}
lr_schedule: {name: cosine, warmup_steps: 4}
amp: {dtype: bfloat16}
checkpoint: {every_steps: 2}
log: {every_steps: 1}
)";

const char* const kResNetExperiment = R"(seed: 7
device: cpu
model: {name: resnet18}
data:
  batch_size: 8
  num_workers: 2
  train:
    format: idx
    images: @DATA@/images
    labels: @DATA@/labels
    transforms:
      - random_crop: {size: 12, padding: 2}
      - horizontal_flip
      - normalize: {mean: [0.4], std: [0.3]}
  eval:
    transforms:
      - normalize: {mean: [0.4], std: [0.3]}
  split: {eval_fraction: 0.2}
train: {epochs: 3, gradient_accumulation_steps: 3, num_threads: 1}
optimizer: {name: sgd, lr: 0.02, momentum: 0.9}
lr_schedule: {name: cosine}
amp:
  dtype: float16
  fp32_modules: ["layer[234]*"]
  scaler: {growth_interval: 5}
checkpoint: {every_steps: 2}
log: {every_steps: 1}
)";

void write_images(const fs::path& folder, const Images& images) {
  std::string pixels;
  std::string labels;
  for_each_image(images, [&](int /*index*/, int label, const std::string& image) {
    pixels += image;
    labels += static_cast<char>(label);
  });
  const auto count = static_cast<uint32_t>(labels.size());
  const auto size = static_cast<uint32_t>(images.size);
  fs::create_directories(folder);
  std::ofstream(folder / "images", std::ios::binary) << std::string("\0\0\x08\x03", 4) << big_endian(count)
                                                     << big_endian(size) << big_endian(size) << pixels;
  std::ofstream(folder / "labels", std::ios::binary)
      << std::string("\0\0\x08\x01", 4) << big_endian(count) << labels;
}

void write_image_folder(const fs::path& folder, const Images& images) {
  for_each_image(images, [&](int index, int label, const std::string& image) {
    const fs::path of_class = folder / std::to_string(label);
    fs::create_directories(of_class);
    std::ofstream(of_class / (std::to_string(index) + ".png"), std::ios::binary) << png(image, images.size);
  });
}

Workspace::Workspace(const std::string& experiment, const Images& images) {
  write_images(data(), images);
  std::ofstream(config()) << replaced(experiment, "@DATA@", data().string());
}

std::vector<std::string> Workspace::command(const std::string& name,
                                            const std::vector<std::string>& overrides) const {
  std::vector<std::string> words{AMPCTL_PROGRAM,    "train",    "--config",
                                 config().string(), "--output", run_folder(name).string()};
  for (const auto& entry : overrides) {
    words.emplace_back("--set");
    words.push_back(entry);
  }
  return words;
}

ProcessResult Workspace::train(const std::string& name, const std::vector<std::string>& overrides) const {
  return run(command(name, overrides), {}, kRunLimit);
}

BackgroundProcess Workspace::start(const std::string& name, const std::vector<std::string>& overrides,
                                   const std::vector<std::string>& env) const {
  return BackgroundProcess(command(name, overrides), root() / (name + ".out"), env);
}

std::vector<Json> metrics(const fs::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  std::vector<Json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<Json> metrics_with(const fs::path& run, const std::string& key) {
  std::vector<Json> lines = metrics(run);
  std::erase_if(lines, [&key](const Json& line) { return !line.contains(key); });
  return lines;
}

int64_t last_step(const fs::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  int64_t step = 0;
  for (std::string line; std::getline(file, line);) {
    const Json value = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (value.is_object()) step = std::max(step, value.value("step", int64_t{0}));
  }
  return step;
}

std::vector<std::vector<std::string>> summary(const fs::path& run) {
  std::ifstream file(run / "summary.csv");
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::vector<std::string> row(1);
    for (const char c : line) {
      if (c == ',') {
        row.emplace_back();
      } else {
        row.back() += c;
      }
    }
    rows.push_back(row);
  }
  return rows;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("no file " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path latest(const fs::path& run) { return fs::canonical(run / "checkpoints" / "latest"); }

Json state(const fs::path& checkpoint) { return Json::parse(read_file(checkpoint / "state.json")); }

std::string checkpoint_difference(const fs::path& a, const fs::path& b) {
  std::string difference;
  if (a.filename() != b.filename())
    difference += "folders " + a.filename().string() + " and " + b.filename().string() + "; ";
  for (const char* file : {"model.safetensors", "optimizer.safetensors", "rank-00000.safetensors"}) {
    if (read_file(a / file) != read_file(b / file)) difference += std::string(file) + " differs; ";
  }
  const Json left = state(a);
  const Json right = state(b);
  for (const char* key : {"scaler", "progress", "class_names"}) {
    if (left.at(key) != right.at(key))
      difference += std::string(key) + ": " + left.at(key).dump() + " and " + right.at(key).dump() + "; ";
  }
  return difference;
}

}  // namespace ampctl::test
