// The completion scripts, asked by the shells themselves.
#include <algorithm>
#include <sstream>

#include "e2e/programs.h"
#include "support/catch.h"
#include "support/skip.h"

using namespace ampctl::test;

namespace {

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

// What bash offers for a line with the cursor at its end. `word_breaks` as in an interactive shell.
std::vector<std::string> bash_offers(const std::string& line, const std::filesystem::path& folder = ".") {
  const std::string script =
      "cd '" + folder.string() + "' && source <(" + kAmpctl +
      R"x( completion bash) && COMP_WORDBREAKS=$' \t\n"\'@><=;|&(:' && COMP_LINE=')x" + line +
      R"x(' && COMP_POINT=${#COMP_LINE} && _ampctl && printf '%s\n' "${COMPREPLY[@]}")x";
  const auto result = run({"bash", "--norc", "-c", script});
  INFO(result.err);
  CHECK(result.err.empty());
  return sorted_lines(result.out);
}

using Words = std::vector<std::string>;

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("bash completes commands and flags") {
  CHECK(bash_offers("ampctl tr") == Words{"train"});
  CHECK(bash_offers("ampctl config ") == Words{"diff", "schema", "show", "validate"});
  CHECK(bash_offers("ampctl train --res") == Words{"--resume"});
  CHECK(bash_offers("ampctl completion ") == Words{"bash", "zsh"});
  CHECK(has(bash_offers("ampctl "), "inspect"));
}

TEST_CASE("bash completes configuration keys and their values") {
  CHECK(bash_offers("ampctl train --set amp.dty") == Words{"amp.dtype="});
  CHECK(bash_offers("ampctl train optimizer.lr=0.1 lr_schedule.warmup_e") ==
        Words{"lr_schedule.warmup_epochs="});
  // Only what follows the '=' is replaced.
  CHECK(has(bash_offers("ampctl train amp.dtype="), "bfloat16"));
  CHECK(bash_offers("ampctl plan amp.dtype=bf") == Words{"bf16", "bfloat16"});
  CHECK(has(bash_offers("ampctl train --set=model.name=resnet"), "resnet50"));
}

TEST_CASE("bash completes flags' values and files") {
  const TempDir folder;
  write_text(folder.path() / "my file.yaml", "");
  write_text(folder.path() / "runs/a/config.yaml", "");
  CHECK(bash_offers("ampctl train --resume la") == Words{"latest"});
  CHECK(bash_offers("ampctl train --resume=la") == Words{"latest"});
  CHECK(bash_offers("ampctl train --nproc-per-node ") == Words{"auto", "gpu"});
  CHECK(bash_offers("ampctl launch --tee ") == Words{"0", "1", "2", "3"});
  CHECK(bash_offers("ampctl launch --rdzv-endpoint ") == Words{""});
  CHECK(bash_offers("ampctl train -c my", folder.path()) == Words{"my file.yaml"});
  CHECK(bash_offers("ampctl eval ru", folder.path()) == Words{"runs"});
  CHECK(bash_offers("ampctl inspect runs/", folder.path()) == Words{"runs/a"});
  // A file named like a command does not change the command.
  CHECK(bash_offers("ampctl config show -c diff --com") == Words{"--comments"});
}

TEST_CASE("zsh completes commands, flags, keys and values") {
  if (run({"sh", "-c", "command -v zsh"}).exit_code != 0)
    return skip("zsh is not installed (apt-get install zsh)");
  const auto result = run({"zsh", "-f", (source_dir() / "tests/e2e/zsh_completion.zsh").string(), kAmpctl});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("all as expected") != std::string::npos);
}
