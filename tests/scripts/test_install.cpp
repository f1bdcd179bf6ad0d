// `cmake --install` makes a prefix that works by itself.
#include "scripts/shell.h"
#include "support/catch.h"
#include "support/skip.h"

using namespace ampctl::test;
namespace fs = std::filesystem;

TEST_CASE("an installed prefix has programs that run, configurations, completions and documents") {
  for (const auto* program : {"ampctl", "ampctl-worker"}) {
    if (!fs::exists(fs::path(AMPCTL_BUILD_DIR) / "bin" / program)) {
      return skip(std::string(program) + " is not built; scripts/test.sh builds it");
    }
  }
  const TempDir prefix;
  const auto installed =
      run({AMPCTL_CMAKE, "--install", AMPCTL_BUILD_DIR, "--prefix", prefix.path().string()});
  INFO(installed.out << installed.err);
  REQUIRE(installed.exit_code == 0);

  const auto bin = prefix.path() / "bin";
  const auto version = run({bin / "ampctl", "--version"});
  CHECK(version.exit_code == 0);
  CHECK(contains(version.out, AMPCTL_VERSION));

  const auto probe = run({bin / "ampctl-worker", "--probe"});
  INFO(probe.err);
  CHECK(probe.exit_code == 0);

  const auto valid =
      run({bin / "ampctl", "config", "validate", prefix.path() / "share/ampctl/configs/mnist.yaml"});
  INFO(valid.out << valid.err);
  CHECK(valid.exit_code == 0);

  for (const auto* file : {"share/bash-completion/completions/ampctl", "share/zsh/site-functions/_ampctl",
                           "share/doc/ampctl/README.md"}) {
    INFO(file);
    CHECK(fs::exists(prefix.path() / file));
  }
  CHECK(run({"bash", "-n", prefix.path() / "share/bash-completion/completions/ampctl"}).exit_code == 0);
}
