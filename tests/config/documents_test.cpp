#include <chrono>
#include <fstream>
#include <sstream>
#include <string>

#include "support/catch.h"
#include "support/process.h"
#include "texts.h"

namespace config = ampctl::config;
namespace test = ampctl::test;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE(
    "docs/configuration.md is what the field descriptions say (else: ampctl config docs > "
    "docs/configuration.md)") {
  const bool same = text_of(test::source_dir() / "docs" / "configuration.md") == config::to_markdown();
  CHECK(same);
}

TEST_CASE("the JSON schema is a valid one, accepts the shipped experiments and refuses wrong ones") {
  if (!test::python_has({"jsonschema", "yaml"})) {
    WARN("skipped: Python has no jsonschema or no yaml");
    return;
  }
  const test::TempDir dir;
  const std::string schema = test::write_file(dir.path() / "schema.json", config::json_schema());
  const auto full = config::load({{(test::source_dir() / "configs" / "resnet50.yaml").string()}, {}});
  const std::string written = test::write_file(dir.path() / "good-written.yaml", config::to_yaml(full));
  std::vector<std::string> command{
      test::python(), (test::source_dir() / "tests/reference/json_schema.py").string(), schema, written};
  for (const auto& entry : std::filesystem::directory_iterator(test::source_dir() / "configs")) {
    if (entry.path().extension() == ".yaml") command.push_back(entry.path().string());
  }
  const auto result = test::run(command);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
}

TEST_CASE("reading and checking an experiment takes well under 20 ms") {
  using Clock = std::chrono::steady_clock;
  const std::string file = (test::source_dir() / "configs" / "resnet50.yaml").string();
  double best_ms = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    config::load({{file}, {}});
    best_ms = std::min(best_ms, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  CHECK(best_ms < 20.0);
}
