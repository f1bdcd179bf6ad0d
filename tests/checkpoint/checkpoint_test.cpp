#include "checkpoint/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/version.h"
#include "checkpoint/manifest.h"
#include "example.h"
#include "support/catch.h"
#include "support/process.h"

namespace {

using namespace ampctl;
using test::contains;
using test::error_of;
namespace fs = std::filesystem;

void never_warns(const std::string& text) { FAIL(text); }

fs::path step_folder(const fs::path& checkpoints, int64_t step) {
  return checkpoints / checkpoint::folder_name(step);
}

}  // namespace

TEST_CASE("folders and files are named by step and rank") {
  CHECK(checkpoint::folder_name(1000) == "step-00001000");
  CHECK(checkpoint::folder_name(123456789012) == "step-123456789012");
  CHECK(checkpoint::rank_file(7) == "rank-00007.safetensors");
}

TEST_CASE("a saved checkpoint holds what was given, under a manifest of sizes and checksums") {
  const test::TempDir dir;
  const fs::path checkpoints = dir.path() / "run" / "checkpoints";
  const fs::path folder = test::save_example(checkpoints, 1000, 'a');
  CHECK(folder == step_folder(checkpoints, 1000));
  checkpoint::verify(folder);
  CHECK(test::letter_of(folder, 1000) == 'a');

  const auto manifest = checkpoint::read_manifest(folder);
  CHECK(manifest.format_version == checkpoint::kFormatVersion);
  CHECK(manifest.step == 1000);
  CHECK(manifest.program_version == kVersion);
  REQUIRE(manifest.files.size() == 3);
  for (const auto& file : manifest.files) CHECK(file.digest.bytes == fs::file_size(folder / file.name));
  CHECK(test::file_bytes(folder / "model.safetensors").size() % 8 == 0);
}

TEST_CASE("equal content gives equal aligned bytes whatever order the tensors come in") {
  const test::TempDir dir;
  const bool flag = true;
  const float x = 1.5F;
  const int64_t n = 2;
  const checkpoint::TensorRef a{"a", "F32", {}, &x, sizeof x};
  const checkpoint::TensorRef b{"b", "I64", {1}, &n, sizeof n};
  const checkpoint::TensorRef first{"0", "BOOL", {1}, &flag, 1};
  checkpoint::write_safetensors(dir.path() / "ab", {first, a, b});
  checkpoint::write_safetensors(dir.path() / "ba", {b, a, first});
  CHECK(test::file_bytes(dir.path() / "ab") == test::file_bytes(dir.path() / "ba"));
  const checkpoint::SafetensorsFile file(dir.path() / "ab");
  for (const auto& [name, tensor] : file.tensors()) {
    CHECK(reinterpret_cast<uintptr_t>(tensor.data) % checkpoint::element_size(tensor.dtype) == 0);
  }
}

TEST_CASE("what contradicts itself is refused before a byte is written") {
  const test::TempDir dir;
  const float x = 1.5F;
  const auto message = [&](const std::vector<checkpoint::FilePart>& parts) {
    return error_of([&] { checkpoint::save(dir.path(), 1, parts); });
  };
  const checkpoint::TensorRef good{"a", "F32", {1}, &x, 4};
  checkpoint::TensorRef wrong = good;
  wrong.shape = {2};
  CHECK(contains(message({{"m.safetensors", {wrong}, {}, ""}}), "tensor 'a' disagree"));
  CHECK(contains(message({{"m.safetensors", {good, good}, {}, ""}}), "two tensors are named 'a'"));
  wrong = good;
  wrong.dtype = "F33";
  CHECK(contains(message({{"m.safetensors", {wrong}, {}, ""}}), "'F33' is not a safetensors dtype"));
  wrong = good;
  wrong.name = "\xff";
  CHECK(contains(message({{"m.safetensors", {wrong}, {}, ""}}), "not UTF-8"));
  CHECK(contains(message({{"../m.json", {}, {}, "x"}}), "'../m.json'"));
  CHECK(contains(message({{"m", {}, {}, "x"}, {"m", {}, {}, "y"}}), "twice"));
  CHECK(contains(message({{"manifest.json", {}, {}, "x"}}), "manifest.json"));
  CHECK(fs::is_empty(dir.path()));
}

TEST_CASE("links are relative and follow the run's folder when it moves") {
  const test::TempDir dir;
  const fs::path checkpoints = dir.path() / "run" / "checkpoints";
  checkpoint::point(checkpoints, "latest", test::save_example(checkpoints, 1, 'a'));
  checkpoint::point(checkpoints, "latest", test::save_example(checkpoints, 2, 'b'));
  CHECK(fs::read_symlink(checkpoints / "latest") == "step-00000002");
  fs::rename(dir.path() / "run", dir.path() / "moved");
  checkpoint::verify(dir.path() / "moved" / "checkpoints" / "latest");
}

TEST_CASE("retention keeps the newest folders and those that latest and best point at") {
  const test::TempDir dir;
  for (const int64_t step : {1, 2, 3, 4, 10}) test::save_example(dir.path(), step, 'a');
  checkpoint::point(dir.path(), "best", step_folder(dir.path(), 2));
  checkpoint::point(dir.path(), "latest", step_folder(dir.path(), 10));
  fs::create_directory(dir.path() / "step-00000005");  // not ours: no manifest
  checkpoint::retain(dir.path(), 2);
  CHECK(checkpoint::list(dir.path()) == std::vector<int64_t>{2, 4, 10});
  CHECK(fs::exists(dir.path() / "step-00000005"));
  CHECK(fs::exists(dir.path() / "best" / "manifest.json"));
  CHECK(error_of([&] { checkpoint::retain(dir.path(), 0); }) != "");
}

TEST_CASE("going on from an older checkpoint gives up the later ones and the links to them") {
  const test::TempDir folder;
  for (const int64_t step : {10, 20, 30}) test::save_example(folder.path(), step, 'a');
  checkpoint::point(folder.path(), "latest", folder.path() / "step-00000030");
  checkpoint::point(folder.path(), "best", folder.path() / "step-00000020");
  CHECK(checkpoint::discard_newer(folder.path(), 30).empty());
  CHECK(checkpoint::discard_newer(folder.path(), 10) == std::vector<int64_t>{20, 30});
  CHECK(checkpoint::list(folder.path()) == std::vector<int64_t>{10});
  CHECK(fs::read_symlink(folder.path() / "latest") == "step-00000010");
  CHECK_FALSE(fs::is_symlink(folder.path() / "best"));
}

TEST_CASE("leftovers of dead processes are removed, those of a live one are not") {
  const test::TempDir dir;
  test::save_example(dir.path(), 1, 'a');
  const fs::path dead = dir.path() / ".tmp-step-00000007";
  const fs::path live = dir.path() / ".tmp-step-00000008";
  fs::create_directory(dead);
  fs::create_directory(live);
  test::write_bytes(dead / "model.safetensors", "torn");
  const int fd = open(live.c_str(), O_RDONLY | O_DIRECTORY);
  REQUIRE(flock(fd, LOCK_EX) == 0);
  checkpoint::retain(dir.path(), 3);
  CHECK_FALSE(fs::exists(dead));
  CHECK(fs::exists(live));
  close(fd);
  test::save_example(dir.path(), 2, 'a');
  CHECK_FALSE(fs::exists(live));
}

TEST_CASE("resume finds the newest checkpoint, the best, or the path given") {
  const test::TempDir dir;
  const fs::path checkpoints = dir.path() / "checkpoints";
  const auto find = [&](const std::string& resume) {
    return checkpoint::find(checkpoints, resume, never_warns);
  };
  CHECK_FALSE(find("auto").has_value());
  CHECK(contains(error_of([&] { find("latest"); }), "3: there is no checkpoint in"));
  CHECK(contains(error_of([&] { find("best"); }), "3: there is no 'best' checkpoint"));

  for (const int64_t step : {1, 2, 10}) test::save_example(checkpoints, step, 'a');
  checkpoint::point(checkpoints, "best", step_folder(checkpoints, 2));
  CHECK(find("auto") == step_folder(checkpoints, 10));
  CHECK(find("latest") == step_folder(checkpoints, 10));
  CHECK(find("best")->filename() == "step-00000002");
  CHECK(find((checkpoints / "best").string())->filename() == "step-00000002");
  CHECK(find((checkpoints / "step-00000001").string() + "/")->filename() == "step-00000001");
  CHECK_FALSE(find("never").has_value());
  CHECK(contains(error_of([&] { find((dir.path() / "absent").string()); }), "absent"));
  CHECK(contains(error_of([&] { find(dir.path().string()); }), "not a complete checkpoint"));
}

TEST_CASE(
    "a checkpoint that was copied under another name still opens, under another step's name it does not") {
  const test::TempDir dir;
  fs::copy(test::save_example(dir.path() / "checkpoints", 1, 'a'), dir.path() / "mine");
  checkpoint::verify(dir.path() / "mine");
  fs::rename(dir.path() / "mine", step_folder(dir.path(), 9));
  CHECK(contains(error_of([&] { checkpoint::verify(step_folder(dir.path(), 9)); }), "it is of step 1"));
}

TEST_CASE("a replaced checkpoint caught between two renames is found and gets its name back") {
  const test::TempDir dir;
  const fs::path folder = test::save_example(dir.path(), 5, 'a');
  checkpoint::point(dir.path(), "best", folder);
  fs::rename(folder, dir.path() / ".old-step-00000005");
  for (const char* resume : {"auto", "best"}) {
    const auto found = checkpoint::find(dir.path(), resume, never_warns);
    REQUIRE(found.has_value());
    CHECK(test::letter_of(*found, 5) == 'a');
  }
  checkpoint::retain(dir.path(), 1);
  CHECK(test::letter_of(folder, 5) == 'a');
}
