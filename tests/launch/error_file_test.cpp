#include "launch/error_file.h"

#include <fstream>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "support/catch.h"
#include "support/process.h"

using ampctl::launch::read_error_file;
using ampctl::launch::write_error_file;
using ampctl::test::TempDir;

TEST_CASE("A worker's error file has torchrun's fields and is written whole") {
  const TempDir folder;
  const auto path = folder.path() / "attempt_0" / "error.json";
  write_error_file(path, "rank 1: out of memory", 3);
  const auto file = nlohmann::json::parse(ampctl::read_text_file(path, 1000));
  CHECK(file.at("message").at("message") == "rank 1: out of memory");
  CHECK(file.at("message").at("errorCode") == 3);
  CHECK(file.at("message").at("extraInfo").at("py_callstack").is_string());
  // torchrun reads the time with int(…).
  CHECK(std::stoll(file.at("message").at("extraInfo").at("timestamp").get<std::string>()) > 1700000000);
  CHECK(std::distance(std::filesystem::directory_iterator(path.parent_path()), {}) == 1);
  const auto error = read_error_file(path);
  REQUIRE(error);
  CHECK(error->message == "rank 1: out of memory");
  CHECK(error->timestamp > 1700000000);
}

TEST_CASE("The first failure stays: later ones are its consequences") {
  const TempDir folder;
  const auto path = folder.path() / "error.json";
  write_error_file(path, "first", 3);
  write_error_file(path, "second", 5);
  CHECK(read_error_file(path)->message == "first");
}

TEST_CASE("What cannot be written or read harms nothing") {
  const TempDir folder;
  std::ofstream(folder.path() / "file") << "{]";
  CHECK_NOTHROW(write_error_file(folder.path() / "file" / "error.json", "text", 1));
  CHECK_NOTHROW(write_error_file(folder.path() / "error.json", "not UTF-8: \xff", 1));
  CHECK(read_error_file(folder.path() / "error.json"));
  CHECK_FALSE(read_error_file(folder.path() / "file"));
  CHECK_FALSE(read_error_file(folder.path() / "absent"));
  std::ofstream(folder.path() / "text") << R"({"message": "bare"})";
  CHECK(read_error_file(folder.path() / "text")->message == "bare");
}
