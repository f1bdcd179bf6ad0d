#include "launch/worker_variables.h"

#include "launch/worker_place.h"
#include "support/catch.h"

using ampctl::launch::LaunchJob;
using ampctl::launch::worker_place;
using ampctl::launch::worker_variables;
using ampctl::launch::WorkerPlace;
using ampctl::launch::WorkerStart;

namespace {

LaunchJob two_nodes_of_four() {
  LaunchJob job;
  job.environment = {{"PATH", "/bin"}, {"AMPCTL_STORE_FD", "99"}};
  job.plan.nodes = 2;
  job.plan.node_rank = 1;
  job.plan.master_addr = "gpu1";
  job.plan.max_restarts = 3;
  job.plan.run_id = "job7";
  job.world = {8, 4, 4};
  job.threads_per_rank = 6;
  return job;
}

}  // namespace

TEST_CASE("What the launcher sets is what a worker reads") {
  WorkerStart start;
  start.local_rank = 2;
  start.attempt = 1;
  start.store_port = 4000;
  start.launcher_fd = 5;
  start.error_file = "/logs/error.json";
  const auto variables = worker_variables(two_nodes_of_four(), start);
  const WorkerPlace place = worker_place(variables);
  CHECK(place.launcher == "ampctl");
  CHECK(place.rank == 6);
  CHECK(place.local_rank == 2);
  CHECK(place.world_size == 8);
  CHECK(place.local_world_size == 4);
  CHECK(place.master_addr == "gpu1");
  CHECK(place.master_port == 4000);
  CHECK(place.hosts_store);
  CHECK(place.launcher_fd == 5);
  CHECK(place.restart_count == 1);
  CHECK(place.max_restarts == 3);
  CHECK(place.run_id == "job7");
  CHECK(place.error_file == std::filesystem::path("/logs/error.json"));
  CHECK(variables.at("GROUP_RANK") == "1");
  CHECK(variables.at("PATH") == "/bin");
  // An outer launcher's descriptor is none of this one's.
  CHECK(variables.count("AMPCTL_STORE_FD") == 0);
}

TEST_CASE("Rank 0 is given the store's socket") {
  LaunchJob job = two_nodes_of_four();
  job.plan.node_rank = 0;
  job.world.first_rank = 0;
  WorkerStart start;
  start.store_port = 4000;
  start.store_fd = 7;
  start.launcher_fd = 5;
  CHECK(worker_place(worker_variables(job, start)).store_listen_fd == 7);
}

TEST_CASE("OMP_NUM_THREADS is a rank's share unless the user chose") {
  LaunchJob job = two_nodes_of_four();
  CHECK(worker_variables(job, {}).at("OMP_NUM_THREADS") == "6");
  job.environment["OMP_NUM_THREADS"] = "3";
  CHECK(worker_variables(job, {}).at("OMP_NUM_THREADS") == "3");
}
