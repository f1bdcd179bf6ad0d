#include "launch/slurm.h"

#include "base/error.h"
#include "support/catch.h"

using ampctl::Error;
using ampctl::launch::first_host;
using ampctl::launch::tasks_on_node;

TEST_CASE("The first host of a node list keeps its zeros and may have several brackets") {
  CHECK(first_host("login1") == "login1");
  CHECK(first_host("gpu1,gpu2") == "gpu1");
  CHECK(first_host("gpu[003-010,12],login1") == "gpu003");
  CHECK(first_host("gpu[7]") == "gpu7");
  CHECK(first_host("gpu[7,9-12].cluster.example") == "gpu7.cluster.example");
  CHECK(first_host("rack[1-2]node[5-7]") == "rack1node5");
}

TEST_CASE("A node list that cannot be read is refused") {
  for (const char* nodes : {"", ",gpu1", "gpu[", "gpu[1", "gpu]1", "gpu[]", "gpu[[1]", "gpu 1"}) {
    CAPTURE(nodes);
    CHECK_THROWS_AS(first_host(nodes), Error);
  }
}

TEST_CASE("Tasks of a node are read from Slurm's run-length notation") {
  CHECK(tasks_on_node("2", 0) == 2);
  CHECK(tasks_on_node("4(x2),3", 1) == 4);
  CHECK(tasks_on_node("4(x2),3", 2) == 3);
  CHECK_FALSE(tasks_on_node("4(x2),3", 3));
  for (const char* tasks : {"", "x", "0", "2(x", "2(x0)", "2;3", "2(3)"}) {
    CAPTURE(tasks);
    CHECK_FALSE(tasks_on_node(tasks, 1));
  }
}
