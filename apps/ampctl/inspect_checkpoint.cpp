#include <filesystem>

#include "base/checksum.h"
#include "base/error.h"
#include "base/format.h"
#include "base/table.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "inspection.h"

namespace ampctl::cli {
namespace fs = std::filesystem;
namespace {

// Runs one part of the inspection: what cannot be read is null, and the first reason is kept.
template <typename Part>
Json attempt(Json& problem, Part part) {
  try {
    return part();
  } catch (const Error& error) {
    if (problem.is_null()) problem = error.what();
  } catch (const Json::exception& error) {
    if (problem.is_null()) problem = std::string(checkpoint::kStateFile) + ": " + error.what();
  }
  return nullptr;
}

Json manifest_json(const checkpoint::Manifest& manifest) {
  Json files = Json::array();
  for (const auto& file : manifest.files) {
    files.push_back(
        {{"name", file.name}, {"bytes", file.digest.bytes}, {"crc32", crc32_text(file.digest.crc32)}});
  }
  return {{"step", manifest.step},
          {"format_version", manifest.format_version},
          {"program_version", manifest.program_version},
          {"files", std::move(files)}};
}

Json state_json(const fs::path& folder) {
  Json state = Json::parse(checkpoint::read_text(folder, checkpoint::kStateFile));
  state.erase("config");
  return state;
}

std::string number_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// {"scale": 65536.0, "growth_interval": 2000} as "scale 65536.0, growth_interval 2000"
std::string fields_text(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    text += (text.empty() ? "" : ", ") + printable(key) + " " +
            (value.is_object() ? "(" + fields_text(value) + ")" : printable(number_text(value)));
  }
  return text;
}

void add_state(const Json& state, Table& table) {
  for (const auto& [key, value] : state.items()) {
    if (value.is_object()) {
      table.add({printable(key), fields_text(value)});
    } else if (key == "class_names" && value.is_array()) {
      table.add({"classes", std::to_string(value.size())});
    } else {
      table.add({printable(key), value.is_null() ? "none" : printable(number_text(value))});
    }
  }
}

}  // namespace

Json inspect_checkpoint(const fs::path& folder) {
  Json problem;
  attempt(problem, [&]() -> Json {
    checkpoint::verify(folder);
    return nullptr;
  });
  Json out{{"kind", "checkpoint"}, {"path", folder.string()}};
  const Json manifest = attempt(problem, [&] { return manifest_json(checkpoint::read_manifest(folder)); });
  const auto of_manifest = [&](const char* key) {
    return manifest.is_null() ? Json(nullptr) : manifest.at(key);
  };
  uint64_t bytes = 0;
  Json tensors = Json::array();
  if (!manifest.is_null()) {
    for (const auto& file : manifest.at("files")) {
      bytes += file.at("bytes").get<uint64_t>();
      const fs::path path = folder / file.at("name").get<std::string>();
      if (path.extension() != ".safetensors") continue;
      Json found = attempt(problem, [&] { return inspect_tensors(path); });
      if (!found.is_null()) tensors.push_back(std::move(found));
    }
  }
  out["step"] = of_manifest("step");
  out["saved_at"] = unix_time(folder / checkpoint::kManifestFile);
  out["bytes"] = bytes;
  Json state = attempt(problem, [&] { return state_json(folder); });
  out["whole"] = problem.is_null();
  out["problem"] = problem;
  out["format_version"] = of_manifest("format_version");
  out["program_version"] = of_manifest("program_version");
  out["files"] = manifest.is_null() ? Json::array() : manifest.at("files");
  out["state"] = std::move(state);
  out["tensors"] = std::move(tensors);
  return out;
}

std::string checkpoint_text(const Json& found) {
  Table table;
  table.add({"checkpoint", found.at("path").get<std::string>()});
  const bool whole = found.at("whole").get<bool>();
  table.add({"verified", whole ? "whole: sizes and checksums agree"
                               : "DAMAGED: " + found.at("problem").get<std::string>()});
  if (!found.at("step").is_null()) {
    table.add({"step", group_digits(found.at("step").get<int64_t>())});
    table.add({"saved", age_text(found.at("saved_at").get<double>()) + " by ampctl " +
                            printable(number_text(found.at("program_version"))) + ", format " +
                            number_text(found.at("format_version"))});
    table.add({"size", format_bytes(found.at("bytes").get<uint64_t>())});
  }
  if (found.at("state").is_object()) add_state(found.at("state"), table);
  std::string text = table.str();

  Table files({Align::left, Align::right, Align::left}, 2);
  for (const auto& file : found.at("files")) {
    files.add({file.at("name").get<std::string>(), format_bytes(file.at("bytes").get<uint64_t>()),
               "crc32 " + file.at("crc32").get<std::string>()});
  }
  if (!files.empty()) text += "\n" + files.str();
  // The model's tensors are what people look for; of the others their number is in --json.
  for (const auto& tensors : found.at("tensors")) {
    if (fs::path(tensors.at("path").get<std::string>()).filename() == checkpoint::kModelFile) {
      text += "\n" + tensors_text(tensors);
    }
  }
  return text;
}

}  // namespace ampctl::cli
