#include "launch/host.h"

#include <fstream>

#include "support/catch.h"
#include "support/process.h"

using ampctl::launch::cpu_quota;
using ampctl::launch::memory_limit;
using ampctl::launch::read_host;
using ampctl::test::TempDir;

namespace {

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

}  // namespace

TEST_CASE("Without control groups there is no quota and no limit") {
  const TempDir root;
  CHECK_FALSE(cpu_quota(root.path()));
  CHECK_FALSE(memory_limit(root.path()));
}

TEST_CASE("Version 2 control groups limit by the tightest of the process's group and its parents") {
  const TempDir root;
  write(root.path() / "proc/self/cgroup", "0::/job/task\n");
  const auto groups = root.path() / "sys/fs/cgroup";
  write(groups / "job/task/cpu.max", "max 100000\n");
  write(groups / "job/cpu.max", "250000 100000\n");
  write(groups / "job/task/memory.max", "max\n");
  write(groups / "job/memory.max", "4294967296\n");
  write(groups / "memory.max", "8589934592\n");
  CHECK(cpu_quota(root.path()) == 2.5);
  CHECK(memory_limit(root.path()) == uint64_t{4294967296});
}

TEST_CASE("Version 1 control groups limit as well, and know a number that means none") {
  const TempDir root;
  write(root.path() / "proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n");
  const auto groups = root.path() / "sys/fs/cgroup";
  write(groups / "cpu/docker/abc/cpu.cfs_quota_us", "150000\n");
  write(groups / "cpu/docker/abc/cpu.cfs_period_us", "100000\n");
  write(groups / "memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  CHECK(cpu_quota(root.path()) == 1.5);
  CHECK_FALSE(memory_limit(root.path()));
  write(groups / "memory/docker/abc/memory.limit_in_bytes", "1073741824\n");
  CHECK(memory_limit(root.path()) == uint64_t{1073741824});
}

TEST_CASE("A host is read from the kernel's files") {
  const TempDir root;
  write(root.path() / "etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  write(root.path() / "proc/cpuinfo",
        "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t\t: fpu avx512_bf16 amx_bf16 "
        "avx2\n\nprocessor\t: 1\n");
  write(root.path() / "proc/meminfo", "MemTotal:        1000 kB\nMemFree: 1 kB\nMemAvailable:     400 kB\n");
  write(root.path() / "proc/self/cgroup", "0::/\n");
  write(root.path() / "sys/fs/cgroup/memory.max", "512000\n");
  write(root.path() / "sys/fs/cgroup/cpu.max", "50000 100000\n");
  write(root.path() / "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:20:12 UTC 2025\nGCC "
        "version:  x\n");
  const auto host = read_host(root.path(), root.path());
  CHECK(host.os == "Debian GNU/Linux 12 (bookworm)");
  CHECK(host.cpu_model == "AMD EPYC 9654");
  CHECK(host.cpu_precision == std::vector<std::string>{"avx512_bf16", "amx_bf16"});
  CHECK(host.memory_bytes == 1024000);
  CHECK(host.available_memory_bytes == 409600);
  CHECK(host.memory_limit_bytes == uint64_t{512000});
  CHECK(host.usable_cores == 1);  // half a CPU still is one
  CHECK(host.nvidia_driver == std::string("580.65.06"));
  CHECK_FALSE(host.shared_memory);
  CHECK(host.disk);
}

TEST_CASE("This machine has cores, memory and a kernel") {
  const auto host = read_host(".");
  CHECK(host.usable_cores >= 1);
  CHECK(host.usable_cores <= host.cores);
  CHECK(host.memory_bytes > 0);
  CHECK_FALSE(host.kernel.empty());
  CHECK(host.disk);
}
