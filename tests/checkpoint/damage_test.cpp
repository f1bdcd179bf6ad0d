// Every bit of a small checkpoint is flipped, every file cut at every length.
#include <random>

#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "checkpoint/manifest.h"
#include "example.h"
#include "support/catch.h"
#include "support/process.h"

namespace {

using namespace ampctl;
using nlohmann::json;
using test::contains;
using test::error_of;
namespace fs = std::filesystem;

constexpr const char* kFiles[] = {checkpoint::kModelFile, checkpoint::kOptimizerFile, checkpoint::kStateFile,
                                  checkpoint::kManifestFile};

std::string flipped(std::string bytes, size_t bit) {
  bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  return bytes;
}

// Rewrites a manifest with a matching checksum of its own, as another program would.
void edit_manifest(const fs::path& folder, const std::function<void(json&)>& edit) {
  json document = json::parse(test::file_bytes(folder / checkpoint::kManifestFile));
  edit(document);
  document.erase("crc32");
  const std::string text = document.dump();
  Crc32 crc;
  crc.update(text.data(), text.size());
  document["crc32"] = crc32_text(crc.value());
  test::write_bytes(folder / checkpoint::kManifestFile, document.dump(4));
}

std::string verify_error(const fs::path& folder) {
  return error_of([&] { checkpoint::verify(folder); });
}

}  // namespace

TEST_CASE("every single flipped bit of every file is detected and the file named") {
  const test::TempDir dir;
  const fs::path folder = test::save_example(dir.path(), 1, 'a');
  for (const char* name : kFiles) {
    const std::string bytes = test::file_bytes(folder / name);
    size_t undetected = 0;
    size_t unnamed = 0;
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      test::write_bytes(folder / name, flipped(bytes, bit));
      const std::string message = verify_error(folder);
      undetected += message.empty() ? 1 : 0;
      // A flip that makes the format's number larger, or another file's entry wrong, names the folder.
      unnamed += contains(message, folder.string()) ? 0 : 1;
    }
    INFO(name);
    CHECK(undetected == 0);
    CHECK(unnamed == 0);
    test::write_bytes(folder / name, bytes);
  }
  CHECK(verify_error(folder).empty());
}

TEST_CASE("every truncation, an appended byte and a missing file are detected and the file named") {
  const test::TempDir dir;
  const fs::path folder = test::save_example(dir.path(), 1, 'a');
  for (const char* name : kFiles) {
    INFO(name);
    const std::string bytes = test::file_bytes(folder / name);
    size_t undetected = 0;
    // The manifest's last byte is a newline, which no JSON needs.
    const size_t longest = bytes.size() - (std::string(name) == checkpoint::kManifestFile ? 1 : 0);
    for (size_t length = 0; length < longest; ++length) {
      test::write_bytes(folder / name, bytes.substr(0, length));
      undetected += contains(verify_error(folder), name) ? 0 : 1;
    }
    CHECK(undetected == 0);
    test::write_bytes(folder / name, bytes + "x");
    CHECK(contains(verify_error(folder), name));
    fs::remove(folder / name);
    CHECK(contains(verify_error(folder), name));
    test::write_bytes(folder / name, bytes);
  }
}

TEST_CASE("a damaged checkpoint is reported once and the next older one used") {
  const test::TempDir dir;
  test::save_example(dir.path(), 1, 'a');
  test::save_example(dir.path(), 2, 'b');
  const fs::path newest = test::save_example(dir.path(), 3, 'c');
  std::mt19937 random(7);
  for (const char* name : kFiles) {
    const std::string bytes = test::file_bytes(newest / name);
    for (int i = 0; i < 10; ++i) {
      test::write_bytes(newest / name, flipped(bytes, random() % (8 * bytes.size())));
      std::vector<std::string> warnings;
      const auto found = checkpoint::find(dir.path(), i % 2 == 0 ? "auto" : "latest",
                                          [&](const std::string& text) { warnings.push_back(text); });
      REQUIRE(found.has_value());
      CHECK(test::letter_of(*found, 2) == 'b');
      REQUIRE(warnings.size() == 1);
      CHECK(contains(warnings[0], "the checkpoint of step 3 cannot be used"));
    }
    test::write_bytes(newest / name, bytes);
  }
}

TEST_CASE("when no checkpoint is usable, nothing starts anew in its place") {
  const test::TempDir dir;
  for (const int64_t step : {1, 2}) {
    fs::remove(test::save_example(dir.path(), step, 'a') / checkpoint::kStateFile);
  }
  int warnings = 0;
  const std::string message =
      error_of([&] { checkpoint::find(dir.path(), "auto", [&](const std::string&) { ++warnings; }); });
  CHECK(contains(message, "3: none of the 2 checkpoints"));
  CHECK(warnings == 2);
}

TEST_CASE("a newer format is refused by name and no older checkpoint takes its place") {
  const test::TempDir dir;
  test::save_example(dir.path(), 1, 'a');
  const fs::path newest = test::save_example(dir.path(), 2, 'b');
  edit_manifest(newest, [](json& manifest) { manifest = {{"format_version", 9}, {"parts", "unheard of"}}; });
  const std::string expected = "was written by format 9, this program reads up to 1: update ampctl";
  CHECK(contains(verify_error(newest), expected));
  CHECK(contains(error_of([&] { checkpoint::find(dir.path(), "auto", [](const std::string&) { FAIL(); }); }),
                 expected));
  // Even where its own checksum is of a kind not known yet.
  test::write_bytes(newest / checkpoint::kManifestFile, R"({"format_version": 9})");
  CHECK(contains(verify_error(newest), expected));
}

TEST_CASE("files that the manifest does not name are not read") {
  const test::TempDir dir;
  const fs::path folder = test::save_example(dir.path(), 1, 'a');
  test::write_bytes(folder / "notes.txt", "mine");
  CHECK(verify_error(folder).empty());
  CHECK(contains(error_of([&] { checkpoint::read_text(folder, "notes.txt"); }), "names no file 'notes.txt'"));
  fs::copy(folder / checkpoint::kModelFile, folder / checkpoint::rank_file(0));
  CHECK(contains(verify_error(folder), "rank-00000.safetensors' is damaged: the manifest does not name it"));
}

TEST_CASE("a text is checked as it is read") {
  const test::TempDir dir;
  const fs::path folder = test::save_example(dir.path(), 1, 'a');
  test::write_bytes(folder / checkpoint::kStateFile, test::example_state(1, 'b'));
  CHECK(contains(error_of([&] { checkpoint::read_text(folder, checkpoint::kStateFile); }), "CRC-32"));
}

TEST_CASE("a hostile manifest ends in an error that names it") {
  const test::TempDir dir;
  const fs::path folder = test::save_example(dir.path(), 1, 'a');
  const auto refused = [&](const std::string& reason) {
    const std::string message = verify_error(folder);
    INFO(message);
    return message.starts_with("3: ") && contains(message, "manifest.json") && contains(message, reason) &&
           message.size() < 1000;
  };
  const auto entry = [](const char* name) {
    return json::array({{{"name", name}, {"size", 1}, {"crc32", "00000000"}}});
  };
  for (const char* name : {"../../etc/passwd", "/etc/passwd", "", "..", "manifest.json"}) {
    edit_manifest(folder, [&](json& manifest) { manifest["files"] = entry(name); });
    CHECK(refused("is not allowed"));
  }
  edit_manifest(folder, [&](json& manifest) { manifest["files"] = 3; });
  CHECK(refused("'files' is not a list"));
  edit_manifest(folder,
                [&](json& manifest) { manifest["files"] = entry("x"), manifest["files"][0]["size"] = -1; });
  CHECK(refused("'size' is not a whole number from 0"));
  edit_manifest(
      folder, [&](json& manifest) { manifest["files"] = entry("x"), manifest["files"][0]["crc32"] = "0x"; });
  CHECK(refused("'crc32' is not eight hexadecimal digits"));
  edit_manifest(folder, [&](json& manifest) { manifest.erase("step"); });
  CHECK(refused("'step' is missing"));
  test::write_bytes(folder / checkpoint::kManifestFile, std::string(1 << 20, '['));
  CHECK(refused("nested too deeply"));
  test::write_bytes(folder / checkpoint::kManifestFile, std::string((4 << 20) + 1, ' '));
  CHECK(refused("at most 4194304"));
  test::write_bytes(folder / checkpoint::kManifestFile, "[]");
  CHECK(refused("no JSON object"));
}
