#include "bench/profile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <unordered_map>

#include <kineto/ActivityType.h>

#include <torch/csrc/autograd/profiler_kineto.h>

#include "bench/blocks.h"
#include "bench/timeline.h"
#include "train/step_phase.h"

namespace ampctl::bench {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using Kind = libkineto::ActivityType;
using Event = profiler::KinetoEvent;

constexpr double kNanosecond = 1e-9;

Kind kind_of(const Event& event) { return static_cast<Kind>(event.activityType()); }

Stretch stretch_of(const Event& event) {
  return {static_cast<int64_t>(event.startNs()), static_cast<int64_t>(event.endNs())};
}

bool is_device_work(const Event& event) {
  const Kind kind = kind_of(event);
  return kind == Kind::CONCURRENT_KERNEL || kind == Kind::GPU_MEMCPY || kind == Kind::GPU_MEMSET;
}

bool is_communication(const std::string& name) { return name.find("nccl") != std::string::npos; }

std::unique_ptr<profiler::ProfilerResult> record(c10::Device device, const std::function<void()>& work) {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  std::set<ActivityType> activities{ActivityType::CPU};
  if (device.is_cuda()) activities.insert(ActivityType::CUDA);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  work();
  synchronize(device);
  return profiler::disableProfiler();
}

/// The phases' ranges on the host.
class Ranges {
 public:
  explicit Ranges(const std::vector<Event>& events) {
    for (const Event& event : events) {
      if (kind_of(event) != Kind::USER_ANNOTATION) continue;
      const std::string name = event.name();
      if (name.starts_with("train::")) ranges_.push_back({name, stretch_of(event)});
    }
  }

  /// The innermost phase at a moment; "" outside of all.
  [[nodiscard]] std::string_view at(int64_t moment) const {
    const Range* found = nullptr;
    for (const Range& range : ranges_) {
      const bool inside = range.stretch.begin <= moment && moment < range.stretch.end;
      if (inside && (found == nullptr || range.stretch.begin >= found->stretch.begin)) found = &range;
    }
    return found == nullptr ? std::string_view() : found->name;
  }

  /// Adds each range's own time, without the ranges inside it.
  void add_to(PhaseTimes& phases) const;

 private:
  struct Range {
    std::string name;
    Stretch stretch;
  };
  std::vector<Range> ranges_;
};

double& phase(PhaseTimes& phases, std::string_view name) {
  if (name == train::kForwardPhase) return phases.forward;
  if (name == train::kBackwardPhase) return phases.backward;
  if (name == train::kOptimizerPhase) return phases.optimizer;
  if (name == train::kCommunicationPhase) return phases.communication;
  return phases.other;
}

void Ranges::add_to(PhaseTimes& phases) const {
  std::vector<Stretch> stretches;
  stretches.reserve(ranges_.size());
  for (const Range& range : ranges_) stretches.push_back(range.stretch);
  const auto own = own_times(stretches);
  for (std::size_t i = 0; i < ranges_.size(); ++i)
    phase(phases, ranges_[i].name) += static_cast<double>(own[i]) * kNanosecond;
}

/// When the host launched what the device ran.
class Launches {
 public:
  explicit Launches(const std::vector<Event>& events) {
    for (const Event& event : events) {
      const Kind kind = kind_of(event);
      if (kind == Kind::CUDA_RUNTIME || kind == Kind::CUDA_DRIVER)
        launches_[event.correlationId()] = static_cast<int64_t>(event.startNs());
      if (kind == Kind::CPU_OP) operators_[event.correlationId()] = static_cast<int64_t>(event.startNs());
    }
  }

  /// The launch itself where it was recorded, else the operator that launched; -1: unknown.
  [[nodiscard]] int64_t of(const Event& work) const {
    if (const auto found = launches_.find(work.correlationId()); found != launches_.end())
      return found->second;
    const auto found = operators_.find(work.linkedCorrelationId());
    return found == operators_.end() ? -1 : found->second;
  }

 private:
  std::unordered_map<uint64_t, int64_t> launches_;
  std::unordered_map<uint64_t, int64_t> operators_;
};

/// Adds up by name.
class KernelTable {
 public:
  void add(const std::string& name, int64_t nanoseconds) {
    KernelTime& row = rows_[name];
    row.launches += 1.0;
    row.seconds += static_cast<double>(nanoseconds) * kNanosecond;
  }

  [[nodiscard]] std::vector<KernelTime> rows(double steps) const {
    std::vector<KernelTime> rows;
    rows.reserve(rows_.size());
    for (const auto& [name, row] : rows_) rows.push_back({name, row.launches / steps, row.seconds / steps});
    std::stable_sort(rows.begin(), rows.end(),
                     [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; });
    return rows;
  }

 private:
  std::map<std::string, KernelTime> rows_;
};

Profile of_device(const std::vector<Event>& events, double steps) {
  const Ranges ranges(events);
  const Launches launches(events);
  Profile profile;
  KernelTable kernels;
  std::vector<Stretch> all;
  std::vector<Stretch> computing;
  for (const Event& event : events) {
    if (!is_device_work(event)) continue;
    const std::string name = event.name();
    const auto duration = static_cast<int64_t>(event.durationNs());
    kernels.add(name, duration);
    all.push_back(stretch_of(event));
    if (!is_communication(name)) computing.push_back(stretch_of(event));
    double& phase_time = is_communication(name) ? profile.phases.communication
                                                : phase(profile.phases, ranges.at(launches.of(event)));
    phase_time += static_cast<double>(duration) * kNanosecond;
  }
  const int64_t busy = covered(all);
  profile.kernels = kernels.rows(steps);
  profile.busy_seconds = static_cast<double>(busy) * kNanosecond / steps;
  profile.idle_seconds = static_cast<double>(extent(all) - busy) * kNanosecond / steps;
  profile.exposed_communication_seconds =
      static_cast<double>(busy - covered(computing)) * kNanosecond / steps;
  return profile;
}

Profile of_host(const std::vector<Event>& events, double steps) {
  Profile profile;
  std::map<uint64_t, std::vector<const Event*>> threads;
  for (const Event& event : events) {
    if (kind_of(event) == Kind::CPU_OP) threads[event.startThreadId()].push_back(&event);
  }
  KernelTable kernels;
  for (const auto& [thread, operators] : threads) {
    std::vector<Stretch> stretches;
    stretches.reserve(operators.size());
    for (const Event* event : operators) stretches.push_back(stretch_of(*event));
    const auto own = own_times(stretches);
    for (std::size_t i = 0; i < operators.size(); ++i) kernels.add(operators[i]->name(), own[i]);
  }
  profile.kernels = kernels.rows(steps);
  Ranges(events).add_to(profile.phases);
  return profile;
}

PhaseTimes a_step(const PhaseTimes& sums, double steps) {
  return {sums.forward / steps, sums.backward / steps, sums.communication / steps, sums.optimizer / steps,
          sums.other / steps};
}

}  // namespace

Profile profile_steps(c10::Device device, int64_t steps, const std::function<void()>& work) {
  const auto result = record(device, work);
  const auto count = static_cast<double>(steps);
  Profile profile = device.is_cuda() ? of_device(result->events(), count) : of_host(result->events(), count);
  profile.phases = a_step(profile.phases, count);
  return profile;
}

}  // namespace ampctl::bench
