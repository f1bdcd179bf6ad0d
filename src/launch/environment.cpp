#include "launch/environment.h"

#include <charconv>

#include <unistd.h>

#include "base/error.h"

namespace ampctl::launch {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* local_rank;
  const char* world_size;
};

constexpr Launcher kTorchrun{"torchrun", "RANK", "LOCAL_RANK", "WORLD_SIZE"};
constexpr Launcher kPmi{"PMI", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"};
constexpr Launcher kOpenMpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_SIZE"};
constexpr Launcher kSlurm{"Slurm", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"};

const std::string* find(const Variables& variables, const char* name) {
  const auto entry = variables.find(name);
  return entry == variables.end() || entry->second.empty() ? nullptr : &entry->second;
}

std::string way_out(const Launcher& launcher) {
  return std::string("; to run outside a job: env -u ") + launcher.rank + " -u " + launcher.local_rank +
         " -u " + launcher.world_size + " ampctl …";
}

std::optional<int64_t> number(const Variables& variables, const char* name, const Launcher& launcher) {
  const std::string* text = find(variables, name);
  if (text == nullptr) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, failure] = std::from_chars(text->data(), end, value);
  if (failure != std::errc() || stop != end || value < 0) {
    throw usage_error("environment variable " + std::string(name) +
                      ": expected a whole number of at least 0, found '" + *text + "'" + way_out(launcher));
  }
  return value;
}

bool is_slurm_task(const Variables& variables) {
  const std::string* job_name = find(variables, "SLURM_JOB_NAME");
  const bool interactive = job_name != nullptr && (*job_name == "interactive" || *job_name == "bash");
  return find(variables, "SLURM_STEP_ID") != nullptr && !interactive;
}

bool mentioned(const Variables& variables, const Launcher& launcher) {
  // MPI_LOCALRANKID and SLURM_NTASKS alone say nothing; torchrun's names are asked for whole, since people
  // export them by hand.
  if (&launcher == &kTorchrun) {
    return find(variables, launcher.rank) != nullptr || find(variables, launcher.world_size) != nullptr ||
           find(variables, launcher.local_rank) != nullptr;
  }
  return find(variables, launcher.rank) != nullptr;
}

Job read(const Variables& variables, const Launcher& launcher) {
  const auto missing = [&](const char* name) {
    return usage_error(std::string("environment variable ") + name + " is missing, though others of " +
                       launcher.name + " are set (expected " + launcher.rank + ", " + launcher.local_rank +
                       " and " + launcher.world_size + " together)" + way_out(launcher));
  };
  const auto world = number(variables, launcher.world_size, launcher);
  if (!world) throw missing(launcher.world_size);
  const auto rank = number(variables, launcher.rank, launcher);
  const auto local_rank = number(variables, launcher.local_rank, launcher);
  const bool alone = *world == 1;
  if (!rank && !alone) throw missing(launcher.rank);
  if (!local_rank && !alone) throw missing(launcher.local_rank);

  Job job;
  job.launcher = launcher.name;
  job.evidence = std::string(launcher.world_size) + "=" + std::to_string(*world);
  job.world_size = *world;
  job.rank = rank.value_or(0);
  job.local_rank = local_rank.value_or(0);
  if (job.rank >= job.world_size || job.local_rank >= job.world_size) {
    throw usage_error("environment variables contradict each other: " + job.evidence + " but " +
                      launcher.rank + "=" + std::to_string(job.rank) + " and " + launcher.local_rank + "=" +
                      std::to_string(job.local_rank) + " (both must be smaller)" + way_out(launcher));
  }
  return job;
}

}  // namespace

Variables process_variables() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

std::optional<Job> detect_job(const Variables& variables) {
  for (const Launcher* launcher : {&kTorchrun, &kPmi, &kOpenMpi}) {
    if (mentioned(variables, *launcher)) return read(variables, *launcher);
  }
  if (is_slurm_task(variables) && mentioned(variables, kSlurm)) return read(variables, kSlurm);
  return std::nullopt;
}

int64_t world_size(const std::optional<int64_t>& configured, const std::optional<Job>& job) {
  if (configured && job && *configured != job->world_size) {
    throw usage_error("distributed.world_size is " + std::to_string(*configured) + ", but " + job->launcher +
                      " says " + job->evidence +
                      ": leave distributed.world_size at auto, or start as many processes");
  }
  if (configured) return *configured;
  return job ? job->world_size : 1;
}

void require_world_of_one(const std::optional<int64_t>& configured, const std::optional<Job>& job) {
  const int64_t size = world_size(configured, job);
  if (size == 1) return;
  const std::string source =
      job ? job->launcher + " says " + job->evidence : "distributed.world_size is " + std::to_string(size);
  throw usage_error(source + ", but this version trains in one process only: " +
                    (job ? "start one process without the launcher"
                         : std::string("set distributed.world_size=1 or leave it at auto")) +
                    ", and reach a larger batch with train.gradient_accumulation_steps");
}

}  // namespace ampctl::launch
