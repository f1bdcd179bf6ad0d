#include "launch/worker_variables.h"

#include "launch/worker_place.h"

namespace ampctl::launch {

Variables worker_variables(const LaunchJob& job, const WorkerStart& start) {
  Variables variables = job.environment;
  const auto set = [&](const char* name, int64_t value) { variables[name] = std::to_string(value); };
  set("RANK", job.world.first_rank + start.local_rank);
  set("LOCAL_RANK", start.local_rank);
  set("WORLD_SIZE", job.world.world_size);
  set("LOCAL_WORLD_SIZE", job.world.local_world_size);
  set("GROUP_RANK", job.plan.node_rank);
  set("GROUP_WORLD_SIZE", job.plan.nodes);
  variables["MASTER_ADDR"] = job.plan.master_addr;
  set("MASTER_PORT", start.store_port);
  variables["TORCHELASTIC_RUN_ID"] = job.plan.run_id;
  set("TORCHELASTIC_RESTART_COUNT", start.attempt);
  set("TORCHELASTIC_MAX_RESTARTS", job.plan.max_restarts);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  variables["TORCHELASTIC_ERROR_FILE"] = start.error_file.string();
  set(kLauncherVariable, start.launcher_fd);
  variables.erase(kStoreVariable);
  if (start.store_fd >= 0) set(kStoreVariable, start.store_fd);
  if (find(variables, "OMP_NUM_THREADS") == nullptr) set("OMP_NUM_THREADS", job.threads_per_rank);
  return variables;
}

}  // namespace ampctl::launch
