#include "launch/cpu_affinity.h"

#include <fstream>

#include "support/catch.h"
#include "support/process.h"

using ampctl::launch::allowed_cpus;
using ampctl::launch::CpuList;
using ampctl::launch::parse_cpu_list;
using ampctl::launch::place_ranks;
using ampctl::launch::to_text;
using ampctl::launch::VisibleGpu;
using ampctl::test::TempDir;

namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text << "\n";
}

// Two sockets of four cores with two threads each: CPUs 0-3,8-11 and 4-7,12-15.
class Machine {
 public:
  Machine() {
    for (int core = 0; core < 8; ++core) {
      for (const int cpu : {core, core + 8}) {
        write(dir_.path() / "sys/devices/system/cpu" / ("cpu" + std::to_string(cpu)) /
                  "topology/thread_siblings_list",
              std::to_string(core) + "," + std::to_string(core + 8));
      }
    }
  }
  void add_gpu(const std::string& name, const std::string& node, const std::string& cpus) const {
    write(dir_.path() / "sys/bus/pci/devices" / name / "numa_node", node);
    write(dir_.path() / "sys/bus/pci/devices" / name / "local_cpulist", cpus);
  }
  [[nodiscard]] const std::filesystem::path& root() const { return dir_.path(); }

 private:
  TempDir dir_;
};

const CpuList kAll = parse_cpu_list("0-15");

}  // namespace

TEST_CASE("The kernel's lists of CPUs are read and written") {
  CHECK(parse_cpu_list("0-3,8") == CpuList{0, 1, 2, 3, 8});
  CHECK(parse_cpu_list("").empty());
  CHECK(parse_cpu_list("x,3-,-2,7") == CpuList{7});
  CHECK(parse_cpu_list("0-99999999").empty());
  CHECK(to_text({0, 1, 2, 3, 8, 10, 11}) == "0-3,8,10-11");
  CHECK(to_text({}).empty());
  CHECK_FALSE(allowed_cpus().empty());
}

TEST_CASE("Each rank gets the cores near its GPU") {
  const Machine machine;
  machine.add_gpu("0000:04:00.0", "0", "0-3,8-11");
  machine.add_gpu("0000:c5:00.0", "1", "4-7,12-15");
  // As the driver writes them: more digits of domain, capital letters.
  const auto places = place_ranks({{"0000:04:00.0"}, {"00000000:C5:00.0"}}, kAll, machine.root());
  REQUIRE(places.size() == 2);
  CHECK(places[0].numa_node == 0);
  CHECK(to_text(places[0].cpus) == "0-3,8-11");
  CHECK(places[1].numa_node == 1);
  CHECK(to_text(places[1].cpus) == "4-7,12-15");
}

TEST_CASE("Ranks near the same cores share them, both threads of a core together") {
  const Machine machine;
  const std::vector<VisibleGpu> gpus{{"0000:04:00.0"}, {"0000:05:00.0"}, {"0000:06:00.0"}};
  for (const auto& gpu : gpus) machine.add_gpu(gpu.bus_id, "0", "0-3,8-11");
  const auto places = place_ranks(gpus, kAll, machine.root());
  CHECK(to_text(places[0].cpus) == "0,8");
  CHECK(to_text(places[1].cpus) == "1,9");
  CHECK(to_text(places[2].cpus) == "2-3,10-11");
}

TEST_CASE("Only CPUs that this process may use are given") {
  const Machine machine;
  machine.add_gpu("0000:04:00.0", "0", "0-3,8-11");
  const auto places = place_ranks({{"0000:04:00.0"}}, parse_cpu_list("2,3,4,10"), machine.root());
  CHECK(to_text(places[0].cpus) == "2-3,10");
}

TEST_CASE("Where nothing is known, or cores do not suffice, ranks are not bound") {
  const Machine machine;
  machine.add_gpu("0000:04:00.0", "-1", "0-15");
  CHECK(place_ranks({{"0000:04:00.0"}}, kAll, machine.root())[0].numa_node == -1);
  CHECK(place_ranks({{""}}, kAll, machine.root())[0].cpus.empty());
  CHECK(place_ranks({{"0000:99:00.0"}}, kAll, machine.root())[0].cpus.empty());
  CHECK(place_ranks({{"0000:04:00.0"}}, {}, machine.root())[0].cpus.empty());
  const auto crowded = place_ranks({{"0000:04:00.0"}, {"0000:04:00.0"}}, {0, 8}, machine.root());
  CHECK(crowded[0].cpus.empty());
  CHECK(crowded[1].cpus.empty());
}
