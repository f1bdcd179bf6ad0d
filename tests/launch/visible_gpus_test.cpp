#include "launch/visible_gpus.h"

#include <fstream>

#include "support/catch.h"
#include "support/process.h"

using ampctl::launch::Variables;
using ampctl::launch::visible_gpus;
using ampctl::test::TempDir;

namespace {

// A machine's files with GPUs at these addresses; the last gets the first minor number.
class Machine {
 public:
  explicit Machine(const std::vector<std::string>& bus_ids) {
    for (std::size_t i = 0; i < bus_ids.size(); ++i) {
      const auto folder = dir_.path() / "proc/driver/nvidia/gpus" / bus_ids[i];
      const auto minor = std::to_string(bus_ids.size() - 1 - i);
      std::filesystem::create_directories(folder);
      std::ofstream(folder / "information")
          << "Model: \t NVIDIA H200\nGPU UUID: \t GPU-" << i << "aaa-bbb\nBus Location: \t " << bus_ids[i]
          << "\nDevice Minor: \t " << minor << "\n";
      add_device("nvidia" + minor);
    }
    add_device("nvidiactl");
    add_device("nvidia-uvm");
  }
  void add_device(const std::string& name) const {
    std::filesystem::create_directories(dir_.path() / "dev");
    std::ofstream(dir_.path() / "dev" / name) << "";
  }
  void remove_device(const std::string& name) const { std::filesystem::remove(dir_.path() / "dev" / name); }

  [[nodiscard]] std::vector<std::string> visible(const Variables& variables = {}) const {
    std::vector<std::string> ids;
    for (const auto& gpu : visible_gpus(variables, dir_.path())) ids.push_back(gpu.bus_id);
    return ids;
  }
  [[nodiscard]] std::vector<std::string> chosen(const std::string& devices) const {
    return visible({{"CUDA_VISIBLE_DEVICES", devices}});
  }

 private:
  TempDir dir_;
};

using Ids = std::vector<std::string>;
const std::string kFirst = "0000:04:00.0";
const std::string kSecond = "0000:65:00.0";
const std::string kThird = "0001:04:00.0";

}  // namespace

TEST_CASE("A machine without NVIDIA's driver has no visible GPU") {
  CHECK(Machine({}).visible().empty());
  CHECK(Machine({}).chosen("0").empty());
}

TEST_CASE("GPUs are counted in the order of their PCI addresses") {
  CHECK(Machine({kSecond, kThird, kFirst}).visible() == Ids{kFirst, kSecond, kThird});
}

TEST_CASE("A container sees only the devices that it was given") {
  const Machine machine({kFirst, kSecond, kThird});
  machine.remove_device("nvidia1");  // the second's
  CHECK(machine.visible() == Ids{kFirst, kThird});
}

TEST_CASE("Where the driver tells nothing the device files are counted") {
  const Machine machine({});
  machine.add_device("nvidia0");
  machine.add_device("nvidia1");
  machine.add_device("nvidia10");
  CHECK(machine.visible() == Ids{"", "", ""});
  CHECK(machine.chosen("GPU-8932f937").size() == 1);
}

TEST_CASE("CUDA_VISIBLE_DEVICES chooses by number, up to the first that names none") {
  const Machine machine({kFirst, kSecond, kThird});
  CHECK(machine.chosen("2,0") == Ids{kThird, kFirst});
  CHECK(machine.chosen(" 1 , 2 ") == Ids{kSecond, kThird});
  CHECK(machine.chosen("0,3,1") == Ids{kFirst});
  CHECK(machine.chosen("0,-1,1") == Ids{kFirst});
  CHECK(machine.chosen("-1").empty());
  CHECK(machine.chosen("").empty());
  CHECK(machine.chosen("NoDevFiles").empty());
  CHECK(machine.chosen("0,0").empty());
}

TEST_CASE("CUDA_VISIBLE_DEVICES chooses by the beginning of a UUID, and counts a MIG device as one") {
  const Machine machine({kFirst, kSecond, kThird});
  CHECK(machine.chosen("GPU-2aaa,GPU-0aaa-bbb") == Ids{kThird, kFirst});
  CHECK(machine.chosen("GPU-9").empty());
  CHECK(machine.chosen("MIG-1d2c").size() == 1);
}
