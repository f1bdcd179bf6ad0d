// What several processes write, and where.
#include "e2e/launcher.h"
#include "e2e/programs.h"
#include "support/catch.h"
#include "support/matchers.h"

using namespace ampctl::test;

TEST_CASE("One worker a rank is started; all meet, and 0 is the end") {
  const LightRun light;
  const auto result = light.run({"--nproc-per-node", "3"}, {"LIGHT_SAY=hello"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("met 3\n"));
  CHECK_THAT(result.err, ContainsSubstring("starting 3 processes on ") &&
                             ContainsSubstring("ranks 0-2 of 3") && ContainsSubstring("OMP_NUM_THREADS="));
  CHECK(light.workers().empty());
}

TEST_CASE("distributed.world_size starts as many, and 'launch' is 'train' by another name") {
  const LightRun light;
  CHECK_THAT(light.run({"distributed.world_size=2"}).out, ContainsSubstring("met 2"));
  const auto result =
      run_ampctl({"launch", "--nproc_per_node=2", "-c", (light.folder() / "small.yaml").string(), "--output",
                  (light.folder() / "run").string()},
                 {"AMPCTL_WORKER=" AMPCTL_LIGHT_WORKER});
  CHECK_THAT(result.out, ContainsSubstring("met 2"));
}

TEST_CASE("Rank 0 writes to the terminal; others to files, their errors repeated behind their rank") {
  const LightRun light;
  const auto result = light.run({"--nproc-per-node", "2"}, {"LIGHT_SAY=hello"});
  CHECK_THAT(result.out, ContainsSubstring("hello on stdout\n") && !ContainsSubstring("[rank"));
  CHECK_THAT(result.err, ContainsSubstring("\nhello on stderr\n") &&
                             ContainsSubstring("[rank1] hello on stderr\n") && !ContainsSubstring("[rank0]"));
  CHECK(LightRun::text(light.logs() / "attempt_0/1/stdout.log") == "hello on stdout\n");
  CHECK(LightRun::text(light.logs() / "attempt_0/1/stderr.log") == "hello on stderr\n");
  CHECK_FALSE(std::filesystem::exists(light.logs() / "attempt_0/0/stdout.log"));
  CHECK_THAT(LightRun::text(light.logs() / "launcher.log"),
             ContainsSubstring("starting 2 processes") && ContainsSubstring("exit code 0"));
}

TEST_CASE("--tee repeats more, --redirects less, and --log-dir says where the files are") {
  const LightRun light;
  const auto logs = light.folder() / "elsewhere";
  auto result =
      light.run({"--nproc-per-node", "2", "--tee", "3", "--log-dir", logs.string()}, {"LIGHT_SAY=hello"});
  CHECK_THAT(result.out,
             ContainsSubstring("[rank0] hello on stdout") && ContainsSubstring("[rank1] hello on stdout"));
  CHECK_THAT(result.err,
             ContainsSubstring("[rank0] hello on stderr") && ContainsSubstring("[rank1] hello on stderr"));
  CHECK_THAT(LightRun::text(logs / "attempt_0/0/stdout.log"), ContainsSubstring("hello on stdout\nmet 2\n"));

  result = light.run({"--nproc-per-node", "2", "--redirects", "0:1,1:3"}, {"LIGHT_SAY=hello"});
  CHECK(result.out.empty());
  CHECK_THAT(result.err, ContainsSubstring("hello on stderr") && !ContainsSubstring("[rank1]"));
  CHECK_THAT(LightRun::text(light.logs() / "attempt_0/0/stdout.log"), ContainsSubstring("met 2"));
}

TEST_CASE("A second run's output is added to the first's") {
  const LightRun light;
  CHECK(light.run({"--nproc-per-node", "2"}, {"LIGHT_SAY=first"}).exit_code == 0);
  const auto result = light.run({"--nproc-per-node", "2"}, {"LIGHT_SAY=second"});
  CHECK_THAT(result.err, ContainsSubstring("[rank1] second") && !ContainsSubstring("[rank1] first"));
  CHECK(LightRun::text(light.logs() / "attempt_0/1/stdout.log") == "first on stdout\nsecond on stdout\n");
}

TEST_CASE("A world of one needs no launcher, unless what only a launcher does is asked for") {
  const LightRun light;
  CHECK_THAT(light.run({"--nproc-per-node", "1"}).err, !ContainsSubstring("starting"));
  CHECK_THAT(light.run({"--nproc-per-node", "1", "--max-restarts", "1"}).err,
             ContainsSubstring("starting 1 process on ") && ContainsSubstring("rank 0 of 1"));
}

TEST_CASE("Two nodes, each with its launcher, are one world") {
  const LightRun light;
  const auto port = std::to_string(20000 + getpid() % 10000);
  const std::vector<std::string> flags{
      "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-endpoint", "127.0.0.1:" + port, "--node-rank"};
  auto second = flags;
  second.emplace_back("1");
  const auto other = light.start(second);
  auto first = flags;
  first.emplace_back("0");
  const auto result = light.run(first);
  INFO(result.err << other->output());
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("met 4"));
  CHECK(other->wait(kSoon) == 0);
  CHECK_THAT(other->output(), ContainsSubstring("ranks 2-3 of 4"));
  CHECK(std::filesystem::exists(light.logs() / "attempt_0/3/stdout.log"));
}
