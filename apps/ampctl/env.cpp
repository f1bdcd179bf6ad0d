#include <filesystem>
#include <optional>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/error.h"
#include "base/table.h"
#include "base/units.h"
#include "base/version.h"
#include "commands.h"
#include "launch/doctor.h"
#include "launch/worker_process.h"
#include "output.h"
#include "style.h"

namespace ampctl::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Examination {
  std::string folder;
  launch::Host host;
  std::optional<std::string> worker;
  std::optional<launch::Probe> probe;
  std::optional<std::string> worker_error;
  std::vector<launch::Finding> findings;
};

Examination examine_machine() {
  Examination found;
  std::error_code failure;
  found.folder = std::filesystem::current_path(failure).string();
  found.host = launch::read_host(failure ? "/" : found.folder);
  try {
    const auto worker = launch::find_worker(launch::process_variables());
    found.worker = worker.string();
    found.probe = launch::run_probe(worker);
  } catch (const Error& error) {
    found.worker_error = error.what();
  }
  found.findings = launch::examine(found.host, found.probe);
  return found;
}

template <typename T>
Json nullable(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json to_json(const std::optional<launch::Space>& space) {
  if (!space) return nullptr;
  return {{"total_bytes", space->total_bytes}, {"free_bytes", space->free_bytes}};
}

Json to_json(const launch::PrecisionSupport& support) {
  return {{"float16", to_string(support.float16)},
          {"bfloat16", to_string(support.bfloat16)},
          {"tf32", to_string(support.tf32)},
          {"fp8", to_string(support.fp8)}};
}

Json to_json(const launch::Gpu& gpu) {
  return {{"index", gpu.index},
          {"name", gpu.name},
          {"compute_capability", {gpu.compute_capability.major, gpu.compute_capability.minor}},
          {"total_memory_bytes", gpu.total_memory_bytes},
          {"free_memory_bytes", nullable(gpu.free_memory_bytes)},
          {"multiprocessors", gpu.multiprocessors},
          {"precision", to_json(launch::precision_support(gpu.compute_capability))}};
}

Json to_json(const launch::Probe& probe) {
  return {{"libtorch", probe.libtorch},
          {"cuda_built", nullable(probe.cuda_built)},
          {"cuda_driver", nullable(probe.cuda_driver)},
          {"cudnn", nullable(probe.cudnn)},
          {"nccl", nullable(probe.nccl)},
          {"openmp_threads", probe.openmp_threads},
          {"cuda_error", nullable(probe.cuda_error)}};
}

Json to_json(const launch::Host& host) {
  return {{"os", host.os},
          {"kernel", host.kernel},
          {"cpu_model", host.cpu_model},
          {"cpu_precision", to_json(launch::precision_support(host.cpu_precision))},
          {"cores", host.cores},
          {"usable_cores", host.usable_cores},
          {"memory_bytes", host.memory_bytes},
          {"available_memory_bytes", host.available_memory_bytes},
          {"memory_limit_bytes", nullable(host.memory_limit_bytes)},
          {"shared_memory", to_json(host.shared_memory)},
          {"disk", to_json(host.disk)},
          {"nvidia_driver", nullable(host.nvidia_driver)}};
}

Json to_json(const Examination& found) {
  Json out;
  out["ampctl"] = kVersion;
  out["folder"] = found.folder;
  out["host"] = to_json(found.host);
  out["worker"] = nullable(found.worker);
  out["worker_error"] = nullable(found.worker_error);
  out["libraries"] = found.probe ? to_json(*found.probe) : Json(nullptr);
  out["gpus"] = Json::array();
  if (found.probe) {
    for (const auto& gpu : found.probe->gpus) out["gpus"].push_back(to_json(gpu));
  }
  out["warnings"] = Json::array();
  for (const auto& finding : found.findings) {
    out["warnings"].push_back({{"problem", finding.problem}, {"remedy", finding.remedy}});
  }
  return out;
}

std::string space_text(const std::optional<launch::Space>& space) {
  if (!space) return "not mounted";
  return format_bytes(space->free_bytes) + " free of " + format_bytes(space->total_bytes);
}

std::string precision_text(const launch::PrecisionSupport& support) {
  return std::string("float16 ") + to_string(support.float16) + ", bfloat16 " + to_string(support.bfloat16) +
         ", TF32 " + to_string(support.tf32) + ", FP8 " + to_string(support.fp8);
}

void add_host(const Examination& found, Table& table) {
  const launch::Host& host = found.host;
  table.add({"system", host.os + ", Linux " + host.kernel});
  table.add({"CPU", host.cpu_model});
  const std::string of = host.cores > host.usable_cores ? " of " + std::to_string(host.cores) : "";
  table.add({"cores", std::to_string(host.usable_cores) + of + " usable"});
  table.add({"CPU precision", precision_text(launch::precision_support(host.cpu_precision))});
  const std::string limit =
      host.memory_limit_bytes ? ", limited to " + format_bytes(*host.memory_limit_bytes) : "";
  table.add({"memory", format_bytes(host.available_memory_bytes) + " available of " +
                           format_bytes(host.memory_bytes) + limit});
  table.add({"/dev/shm", space_text(host.shared_memory)});
  table.add({"disk", space_text(host.disk) + " in " + found.folder});
}

void add_libraries(const launch::Probe& probe, Table& table) {
  table.add({"LibTorch", probe.libtorch + ", CUDA " + probe.cuda_built.value_or("none") + ", cuDNN " +
                             probe.cudnn.value_or("none") + ", NCCL " + probe.nccl.value_or("none") + ", " +
                             std::to_string(probe.openmp_threads) + " CPU threads"});
}

void add_gpus(const launch::Probe& probe, Table& table) {
  if (probe.gpus.empty()) table.add({"GPUs", "none"});
  for (const auto& gpu : probe.gpus) {
    const auto& capability = gpu.compute_capability;
    const std::string free =
        gpu.free_memory_bytes ? format_bytes(*gpu.free_memory_bytes) + " free of " : std::string();
    table.add({"GPU " + std::to_string(gpu.index),
               gpu.name + ", compute capability " + std::to_string(capability.major) + "." +
                   std::to_string(capability.minor) + ", " + free + format_bytes(gpu.total_memory_bytes) +
                   ", " + std::to_string(gpu.multiprocessors) + " multiprocessors"});
    table.add({"", precision_text(launch::precision_support(capability))});
  }
}

std::string to_text(const Examination& found) {
  const Style style(STDOUT_FILENO);
  Table table;
  table.add({"ampctl", std::string(kVersion) + " (" + kCommit + ")"});
  add_host(found, table);
  const std::string supports =
      found.probe && found.probe->cuda_driver ? ", supports CUDA " + *found.probe->cuda_driver : "";
  table.add({"driver", found.host.nvidia_driver.value_or("no NVIDIA driver") + supports});
  if (found.probe) {
    add_libraries(*found.probe, table);
    add_gpus(*found.probe, table);
  }
  std::string text = table.str();
  if (found.worker_error) text += "\n" + style.red("error: ") + *found.worker_error + "\n";
  if (!found.findings.empty()) text += "\n";
  for (const auto& finding : found.findings) {
    text += style.yellow("warning: ") + finding.problem + "\n         " + finding.remedy + "\n";
  }
  if (!found.worker_error && found.findings.empty()) text += "\n" + style.green("no problems found") + "\n";
  return text;
}

}  // namespace

int run_env(const EnvOptions& options) {
  const Examination found = examine_machine();
  print(options.json ? to_json(found).dump(2) + "\n" : to_text(found));
  return found.worker_error ? kExitEnvironment : kExitDone;
}

}  // namespace ampctl::cli
