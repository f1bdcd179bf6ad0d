#include <chrono>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "config/yaml_tree.h"
#include "support/catch.h"
#include "support/process.h"
#include "texts.h"

namespace config = ampctl::config;
namespace test = ampctl::test;
using test::message_of;

namespace {

std::string repeated(const std::string& text, size_t times) {
  std::string result;
  result.reserve(text.size() * times);
  for (size_t i = 0; i < times; ++i) result += text;
  return result;
}

// The message, after seeing that it took little time and memory.
std::string bounded_message(const std::string& yaml) {
  using Clock = std::chrono::steady_clock;
  constexpr long kMostKib = 300L * 1024;
  const auto begin = Clock::now();
  std::string message = message_of(yaml);
  const std::chrono::duration<double> took = Clock::now() - begin;
  CHECK(took.count() < 5.0);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  CHECK(usage.ru_maxrss < kMostKib);
  return message;
}

}  // namespace

TEST_CASE("an alias bomb is refused before it grows") {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below + repeated(", " + below, 9) +
            "]\n";
  }
  CHECK(bounded_message(text).find("expected at most 10000 values with aliases written out, found more") !=
        std::string::npos);
  const std::string long_text =
      "a: &a " + repeated("x", 200'000) + "\nb: [*a" + repeated(", *a", 100) + "]\n";
  CHECK(bounded_message(long_text).find("bytes of text with aliases written out, found more") !=
        std::string::npos);
  CHECK(bounded_message("a: &a [*a]\n") == "e.yaml:1:8: this alias stands inside the value it names");
}

TEST_CASE("deep nesting is refused") {
  const std::vector<std::string> texts{"a: " + repeated("[", 100'000), "a: " + repeated("{a: ", 50'000),
                                       repeated("- ", 100'000), repeated("[", 200'000),
                                       repeated("? ", 100'000)};
  for (const auto& text : texts) {
    const std::string message = bounded_message(text);
    INFO(message);
    CHECK((message.find("levels of lists and maps") != std::string::npos ||
           message.find("expected text as a key") != std::string::npos));
  }
  std::string indented;
  for (size_t i = 0; i < 200; ++i) indented += std::string(i, ' ') + "a:\n";
  CHECK(bounded_message(indented).find("expected at most 32 levels") != std::string::npos);
  CHECK(message_of(config::LoadRequest{{}, {repeated("a.", 10'000) + "b=1"}}).find("at most 32 parts") !=
        std::string::npos);
}

TEST_CASE("huge files are refused by their size and endless ones are not read to the end") {
  CHECK(bounded_message(repeated("# filling\n", 100'000)) ==
        "e.yaml: expected at most 262144 bytes, found more");
  CHECK(message_of(config::LoadRequest{{"/dev/zero"}, {}}) ==
        "/dev/zero: expected at most 262144 bytes, found more");
}

TEST_CASE("many keys and odd text at the limits of size end in time") {
  std::string keys;
  for (int i = 0; i < 20'000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  CHECK(bounded_message(keys).find("expected at most 10000 values") != std::string::npos);
  std::string unknown;
  for (int i = 0; i < 4'900; ++i) unknown += "key" + std::to_string(i) + ": 1\n";
  CHECK(bounded_message(unknown).find("... and ") != std::string::npos);
  for (const auto* unit : {"\"", "'",  "a: ", "{",    "}",    "&a ", "*a ", "!",       "%",    "|\n",
                           "\t", "\\", ": ",  "- - ", "\xff", "a,",  "[a,", "\"\\x41", "${A:", "<<: "}) {
    INFO(unit);
    const std::string text(unit);
    CHECK_FALSE(bounded_message("a: " + repeated(text, 200'000 / text.size())).empty());
  }
}

TEST_CASE("files that extend others again and again are refused") {
  const test::TempDir dir;
  for (int i = 0; i < 12; ++i) {
    const std::string next = std::to_string(i + 1) + ".yaml";
    test::write_file(dir.path() / (std::to_string(i) + ".yaml"), "extends: [" + next + ", " + next + "]\n");
  }
  test::write_file(dir.path() / "12.yaml", test::minimal());
  CHECK(message_of(config::LoadRequest{{(dir.path() / "0.yaml").string()}, {}})
            .find("extends: expected at most 100 files, found more") != std::string::npos);
  for (int i = 0; i < 20; ++i) {
    test::write_file(dir.path() / ("c" + std::to_string(i) + ".yaml"),
                     "extends: c" + std::to_string(i + 1) + ".yaml\n");
  }
  CHECK(message_of(config::LoadRequest{{(dir.path() / "c0.yaml").string()}, {}})
            .find("extends: expected at most 16 files in a row, found more") != std::string::npos);
}
