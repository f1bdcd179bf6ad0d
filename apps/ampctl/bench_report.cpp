#include "bench_report.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "base/table.h"
#include "base/units.h"

namespace ampctl::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDigits = 4;
constexpr double kMilli = 1e3;
constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr double kMega = 1e6;
constexpr std::size_t kLongestName = 100;
constexpr double kLeastShare = 0.0005;  // what would be printed as 0.0%

double number(const Json& object, const char* key) { return object.at(key).get<double>(); }

std::string text(double value) { return format_significant(value, kDigits); }

// 731.2 TFLOP/s, 33.10 GB/s
std::string rate_text(double per_second, const char* unit) {
  const bool flops = unit[0] == 'F';
  if (flops && per_second >= kTera) return text(per_second / kTera) + " T" + unit;
  if (per_second >= kGiga) return text(per_second / kGiga) + " G" + unit;
  return text(per_second / kMega) + " M" + unit;
}

std::string milliseconds(double seconds) { return text(seconds * kMilli) + " ms"; }

std::string samples(double per_second) {
  constexpr double kWhole = 1000.0;
  return per_second >= kWhole ? group_digits(std::llround(per_second)) : text(per_second);
}

std::string gib(const Json& memory, const char* key) { return text(number(memory, key)) + " GiB"; }

std::string shortened(const std::string& name) {
  const std::string clean = printable(name);
  return clean.size() <= kLongestName ? clean : clean.substr(0, kLongestName) + "…";
}

double median(const Json& result, const char* key) { return number(result.at(key), "median"); }

bool on_device(const Json& result) { return number(result.at("memory"), "peak_allocated_gib") > 0.0; }

std::string workload_text(const Json& result) {
  const Json& work = result.at("workload");
  const auto count = [&](const char* key) { return std::to_string(work.at(key).get<int64_t>()); };
  const Json& input = work.at("input");
  const std::string data = work.at("data").get<std::string>() == "synthetic" ? "made-up data" : "real data";
  return work.at("model").get<std::string>() + ", " + work.at("precision").get<std::string>() +
         (work.at("scaler").get<bool>() ? " with gradient scaler" : "") + ", batch " + count("global_batch") +
         " (" + count("micro_batch") + " x accumulation " + count("accumulation") + " x processes " +
         count("world_size") + "), " + input[0].dump() + "x" + input[1].dump() + "x" + input[2].dump() +
         ", " + data + (work.at("resident").get<bool>() ? " kept on the device" : " through the loader") +
         ", " + result.at("device").get<std::string>();
}

// ", 31.2% of 731.2 TFLOP/s measured (…)"
std::string of_limit(double reached, const Json& limits, const char* key, const char* unit,
                     const std::string& how) {
  const double limit = number(limits, key);
  return ", " + format_share(reached / limit) + " of " + rate_text(limit, unit) + " measured (" + how + ")";
}

void add_rates(const Json& result, Table& table) {
  const Json& rates = result.at("rates");
  const Json& limits = rates.at("limits");
  const bool limited = !limits.is_null();
  const double flops = number(rates, "flops_per_second");
  table.add({"compute", rate_text(flops, "FLOP/s") +
                            (limited ? of_limit(flops, limits, "flops_per_second", "FLOP/s",
                                                limits.at("product").get<std::string>())
                                     : "") +
                            "; convolutions and linear layers, a device"});
  if (rates.at("bytes_per_second").is_null()) return;
  const double bytes = number(rates, "bytes_per_second");
  table.add({"traffic", rate_text(bytes, "B/s") +
                            (limited ? of_limit(bytes, limits, "bytes_per_second", "B/s",
                                                "copy of " + limits.at("copy").get<std::string>())
                                     : "") +
                            "; operands of all operators, a device"});
}

void add_phases(const Json& result, Table& table) {
  const Json& phases = result.at("phases");
  if (phases.is_null()) return;
  double total = 0.0;
  for (const auto& item : phases.items()) total += item.value().get<double>();
  std::string line;
  for (const auto& item : phases.items()) {
    const double seconds = item.value().get<double>();
    if (seconds / total < kLeastShare) continue;
    line += (line.empty() ? "" : ", ") + item.key() + " " + milliseconds(seconds) + " (" +
            format_share(seconds / total) + ")";
  }
  table.add({"phases", line + (on_device(result) ? "; time of kernels, without a CUDA graph"
                                                 : "; the host's time, under the profiler")});
}

void add_device_time(const Json& result, Table& table) {
  const Json& profile = result.at("profile");
  if (profile.is_null() || !on_device(result)) return;
  const double busy = number(profile, "busy_seconds");
  const double idle = number(profile, "idle_seconds");
  std::string line = "busy " + milliseconds(busy) + " a step, idle " + format_share(idle / (busy + idle)) +
                     " under the profiler";
  const double exposed = number(profile, "exposed_communication_seconds");
  if (exposed > 0.0) line += ", communication that nothing hides " + milliseconds(exposed);
  table.add({"device", line});
}

void add_memory(const Json& result, Table& table) {
  const Json& memory = result.at("memory");
  const std::string host = gib(memory, "peak_host_gib") + " of the process";
  table.add({"peak memory", on_device(result) ? gib(memory, "peak_allocated_gib") + " allocated, " +
                                                    gib(memory, "peak_reserved_gib") + " reserved, " + host
                                              : host});
}

std::string graph_text(const Json& work) {
  if (work.at("cuda_graph").get<bool>()) return "replayed as one CUDA graph";
  const Json& reason = work.at("eager_reason");
  return reason.is_null() ? "run eagerly" : reason.get<std::string>();
}

std::string kernels_text(const Json& result, std::size_t count) {
  const Json& profile = result.at("profile");
  if (profile.is_null() || count == 0) return "";
  Table table({Align::right, Align::right, Align::right, Align::left}, 2);
  table.add({"share", "ms/step", "calls", on_device(result) ? "kernel" : "operator"});
  const Json& kernels = profile.at("kernels");
  for (std::size_t i = 0; i < std::min(count, kernels.size()); ++i) {
    const Json& kernel = kernels[i];
    table.add({format_share(number(kernel, "share")), text(number(kernel, "seconds") * kMilli),
               format_general(number(kernel, "launches"), kDigits),
               shortened(kernel.at("name").get<std::string>())});
  }
  return "\n" + table.str();
}

std::string ratio(double value, double reference) {
  return reference > 0.0 ? text(value / reference) + "x" : "-";
}

double peak(const Json& result) {
  const Json& memory = result.at("memory");
  return number(memory, on_device(result) ? "peak_allocated_gib" : "peak_host_gib");
}

std::vector<std::string> row(const Measured& measured, const Measured& baseline) {
  const Json& result = measured.result;
  std::vector<std::string> cells{name_of(measured.variant)};
  if (result.is_null()) {
    cells.emplace_back("failed");
    return cells;
  }
  const double rate = median(result, "samples_per_sec");
  const bool compared = !baseline.result.is_null();
  const double flops = number(result.at("rates"), "flops_per_second");
  cells.insert(cells.end(),
               {samples(rate), format_share(number(result.at("samples_per_sec"), "spread")),
                text(median(result, "step_seconds") * kMilli),
                compared ? ratio(rate, median(baseline.result, "samples_per_sec")) : "-", text(peak(result)),
                compared ? ratio(peak(result), peak(baseline.result)) : "-", text(flops / kTera)});
  return cells;
}

}  // namespace

std::string detailed_text(const Json& result, std::size_t kernels) {
  Table table({}, 2);
  const Json& rate = result.at("samples_per_sec");
  const double step = median(result, "step_seconds");
  table.add({"throughput", samples(number(rate, "median")) + " samples/s, " + milliseconds(step) +
                               " a step; median of " +
                               std::to_string(result.at("block_step_seconds").size()) + " blocks of " +
                               result.at("steps_a_block").dump() + " steps, spread " +
                               format_share(number(rate, "spread"))});
  if (!result.at("first_step_seconds").is_null()) {
    table.add({"first step", text(number(result, "first_step_seconds")) + " s after the process began"});
  }
  if (on_device(result)) table.add({"step", graph_text(result.at("workload"))});
  const double wait = number(result, "data_wait_seconds");
  table.add({"data wait", milliseconds(wait) + " a step (" + format_share(wait / step) + ")"});
  add_rates(result, table);
  add_memory(result, table);
  add_phases(result, table);
  add_device_time(result, table);
  const auto skipped = result.at("skipped_steps").get<int64_t>();
  const Json& loss = result.at("loss");
  table.add({"training", "loss " + (loss.is_null() ? "not finite" : text(loss.get<double>())) + ", " +
                             std::to_string(skipped) + " steps skipped"});
  return workload_text(result) + "\n" + table.str() + kernels_text(result, kernels);
}

std::string comparison_text(const std::vector<Measured>& all) {
  std::vector<Variant> variants;
  variants.reserve(all.size());
  for (const auto& measured : all) variants.push_back(measured.variant);
  Table table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right,
               Align::right, Align::right});
  table.add({"variant", "samples/s", "spread", "ms/step", "speed", "peak GiB", "memory", "TFLOP/s"});
  std::string failures;
  for (std::size_t i = 0; i < all.size(); ++i) {
    table.add(row(all[i], all[baseline_of(variants, i)]));
    if (all[i].result.is_null())
      failures += "\n" + name_of(all[i].variant) + " failed: " + all[i].error + "\n";
  }
  return table.str() + failures;
}

Json to_json(const Measured& measured) {
  Json settings = Json::object();
  for (const auto& setting : measured.variant) settings[setting.key] = setting.value;
  return {{"settings", settings},
          {"error", measured.error.empty() ? Json(nullptr) : Json(measured.error)},
          {"exit_code", measured.exit_code},
          {"result", measured.result}};
}

}  // namespace ampctl::cli
