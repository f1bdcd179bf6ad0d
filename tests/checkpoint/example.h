// A small checkpoint whose every byte follows from its step and a letter, for the tests of this folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace ampctl::test {

/// What the tensors hold: enough of it that a write takes more than a few bytes.
inline std::vector<float> example_weights(int64_t step, char letter) {
  std::vector<float> weights(64);
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(step) * 1000.0F + static_cast<float>(letter) + static_cast<float>(i);
  }
  return weights;
}

inline std::string example_state(int64_t step, char letter) {
  return R"({"step": )" + std::to_string(step) + R"(, "letter": ")" + letter + "\"}";
}

inline std::filesystem::path save_example(const std::filesystem::path& checkpoints, int64_t step,
                                          char letter) {
  const std::vector<float> weights = example_weights(step, letter);
  const uint64_t bytes = weights.size() * sizeof(float);
  const checkpoint::TensorRef weight{"fc.weight", "F32", {8, 8}, weights.data(), bytes};
  const checkpoint::TensorRef counter{"steps", "I64", {}, &step, sizeof step};
  const checkpoint::TensorRef empty{"empty", "F16", {0, 3}, nullptr, 0};
  return checkpoint::save(checkpoints, step,
                          {{checkpoint::kModelFile, {weight, counter, empty}, {{"format", "pt"}}, ""},
                           {checkpoint::kOptimizerFile, {weight}, {}, ""},
                           {checkpoint::kStateFile, {}, {}, example_state(step, letter)}});
}

/// The letter of a folder that holds exactly what save_example() put there; '?' for any other content.
inline char letter_of(const std::filesystem::path& folder, int64_t step) {
  const std::string state = checkpoint::read_text(folder, checkpoint::kStateFile);
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    if (state != example_state(step, letter)) continue;
    const checkpoint::SafetensorsFile model(folder / checkpoint::kModelFile);
    const auto& weight = model.tensors().at("fc.weight");
    std::vector<float> found(weight.bytes / sizeof(float));
    model.read(weight, found.data());
    return found == example_weights(step, letter) && model.tensors().size() == 3 ? letter : '?';
  }
  return '?';
}

inline std::string file_bytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  // A new file: some file systems flush one that is emptied and written again.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

/// The message of the ampctl::Error that `call` throws, with its kind's exit code before it; "" for none.
template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::to_string(exit_code(error.kind())) + ": " + error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

}  // namespace ampctl::test
