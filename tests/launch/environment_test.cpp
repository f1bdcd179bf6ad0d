#include "launch/environment.h"

#include "base/error.h"
#include "support/catch.h"
#include "support/matchers.h"

using ampctl::Error;
using ampctl::ErrorKind;
using ampctl::launch::detect_job;
using ampctl::launch::Job;
using ampctl::launch::require_world_of_one;
using ampctl::launch::Variables;
using ampctl::launch::world_size;

namespace {

std::string message_of(const Variables& variables) {
  try {
    static_cast<void>(detect_job(variables));
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.what();
  }
  FAIL("expected a usage error");
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Without a launcher's variables there is no job") {
  CHECK_FALSE(detect_job({}));
  CHECK_FALSE(detect_job({{"PATH", "/bin"}, {"RANK", ""}, {"MPI_LOCALRANKID", "1"}}));
}

TEST_CASE("torchrun's variables give rank, local rank and world size") {
  const auto job = detect_job({{"RANK", "5"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "8"}});
  REQUIRE(job);
  CHECK(job->launcher == "torchrun");
  CHECK(job->rank == 5);
  CHECK(job->local_rank == 1);
  CHECK(job->world_size == 8);
}

TEST_CASE("Each launcher is known by its own variables") {
  struct Case {
    Variables variables;
    std::string launcher;
  };
  const std::vector<Case> cases{
      {{{"PMI_RANK", "3"}, {"MPI_LOCALRANKID", "1"}, {"PMI_SIZE", "4"}}, "PMI"},
      {{{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
       "Open MPI"},
      {{{"SLURM_PROCID", "3"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_NTASKS", "4"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_JOB_NAME", "train.sh"}},
       "Slurm"},
  };
  for (const auto& [variables, launcher] : cases) {
    const auto job = detect_job(variables);
    REQUIRE(job);
    CHECK(job->launcher == launcher);
    CHECK(job->rank == 3);
    CHECK(job->local_rank == 1);
    CHECK(job->world_size == 4);
  }
}

TEST_CASE("A Slurm shell without a task of srun is no job") {
  Variables batch{
      {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}};
  CHECK_FALSE(detect_job(batch));
  batch["SLURM_STEP_ID"] = "0";
  CHECK(detect_job(batch));
  batch["SLURM_JOB_NAME"] = "interactive";
  CHECK_FALSE(detect_job(batch));
  batch["SLURM_JOB_NAME"] = "bash";
  CHECK_FALSE(detect_job(batch));
}

TEST_CASE("The innermost launcher is believed") {
  Variables variables{
      {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_ID", "0"}};
  variables.insert(
      {{"OMPI_COMM_WORLD_RANK", "6"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "8"}});
  CHECK(detect_job(variables)->rank == 6);
  variables.insert({{"RANK", "9"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "16"}});
  CHECK(detect_job(variables)->rank == 9);
}

TEST_CASE("Incomplete launcher variables are refused with the missing one's name") {
  CHECK(contains(message_of({{"RANK", "1"}}), "WORLD_SIZE is missing"));
  CHECK(contains(message_of({{"WORLD_SIZE", "2"}}), "RANK is missing"));
  CHECK(contains(message_of({{"WORLD_SIZE", "2"}, {"RANK", "0"}}), "LOCAL_RANK is missing"));
  CHECK(contains(message_of({{"LOCAL_RANK", "0"}}), "WORLD_SIZE is missing"));
}

TEST_CASE("A world of one needs no ranks") {
  const auto job = detect_job({{"WORLD_SIZE", "1"}});
  REQUIRE(job);
  CHECK(job->rank == 0);
  CHECK(job->local_rank == 0);
}

TEST_CASE("Launcher variables that are no numbers or contradict each other are refused") {
  CHECK(contains(message_of({{"RANK", "one"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}}), "found 'one'"));
  CHECK(contains(message_of({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "-2"}}), "found '-2'"));
  CHECK(contains(message_of({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2 "}}), "found '2 '"));
  CHECK(contains(message_of({{"RANK", "2"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}}), "RANK=2"));
  CHECK(contains(message_of({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "0"}}), "WORLD_SIZE=0"));
  CHECK(contains(message_of({{"RANK", "99999999999999999999"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}}),
                 "RANK"));
}

TEST_CASE("The world is the configuration's, else the job's, else one process") {
  Job job;
  job.launcher = "torchrun";
  job.evidence = "WORLD_SIZE=4";
  job.world_size = 4;
  CHECK(world_size({}, {}) == 1);
  CHECK(world_size(2, {}) == 2);
  CHECK(world_size({}, job) == 4);
  CHECK(world_size(4, job) == 4);
  CHECK_THROWS_WITH(world_size(2, job), ampctl::test::ContainsSubstring("distributed.world_size is 2") &&
                                            ampctl::test::ContainsSubstring("WORLD_SIZE=4"));
}

TEST_CASE("Worlds of more than one process are refused, whoever asks for them") {
  Job job;
  job.launcher = "torchrun";
  job.evidence = "WORLD_SIZE=2";
  job.world_size = 2;
  CHECK_THROWS_WITH(require_world_of_one({}, job),
                    ampctl::test::ContainsSubstring("torchrun says WORLD_SIZE=2"));
  CHECK_THROWS_WITH(require_world_of_one(8, {}),
                    ampctl::test::ContainsSubstring("distributed.world_size is 8"));
  job.world_size = 1;
  job.evidence = "WORLD_SIZE=1";
  CHECK_NOTHROW(require_world_of_one({}, job));
  CHECK_NOTHROW(require_world_of_one(1, {}));
}
