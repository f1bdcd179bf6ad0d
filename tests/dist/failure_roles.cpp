#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include <ATen/ops/ones.h>

#include "base/error.h"
#include "dist/agreement.h"
#include "dist/collectives.h"
#include "dist/distributed_data_parallel.h"
#include "dist/monitor.h"
#include "dist/peers.h"
#include "net.h"
#include "roles.h"

namespace ampctl::test {
namespace {

using dist::Monitor;
using dist::MonitorOptions;
using dist::Phase;
using dist::Wish;
using dist::World;
using std::chrono::milliseconds;

constexpr milliseconds kStepTime{5};
constexpr int64_t kEndless = 1000000;

[[noreturn]] void end_process(const std::string& report) {
  std::cerr << "monitor: " << report << std::endl;
  std::_Exit(kExitPeer);
}

MonitorOptions monitor_options(milliseconds timeout, milliseconds grace = milliseconds(500)) {
  MonitorOptions options;
  options.timeout = timeout;
  options.grace = grace;
  options.on_failure = end_process;
  return options;
}

/// One step as the worker's: a reduction and an agreement.
void step(const World& world, dist::Agreement& agreement) {
  at::Tensor value = at::ones({10}, at::kFloat);
  dist::all_reduce_sum_(world, value);
  agreement.exchange(Wish::go_on);
  std::this_thread::sleep_for(kStepTime);
}

/// Steps until a peer fails; then leaves a note, as the worker does.
void steps(const World& world) {
  Monitor monitor(world, monitor_options(std::chrono::minutes(1), std::chrono::seconds(20)));
  dist::Agreement agreement(world);
  try {
    for (int64_t done = 0; done < kEndless; ++done) {
      monitor.at(Phase::step, done);
      step(world, agreement);
      if (done == 5) say("under way");
    }
  } catch (const Error& error) {
    monitor.note_failure(error.what());
    throw;
  }
}

/// The main thread waits for a device that never answers, as with NCCL and a dead peer.
void stuck_in_the_device(const World& world) {
  Monitor monitor(world, monitor_options(std::chrono::minutes(1)));
  monitor.at(Phase::step, 1);
  dist::barrier(world);
  say("under way");
  std::this_thread::sleep_for(std::chrono::minutes(1));
}

/// Rank 1 stops making progress; the collectives' own timeout is far away.
void hangs(const World& world) {
  Monitor monitor(world, monitor_options(std::chrono::seconds(2)));
  dist::Agreement agreement(world);
  for (int64_t done = 0; done < kEndless; ++done) {
    monitor.at(Phase::step, done);
    step(world, agreement);
    if (done == 3 && world.rank() == 1) {
      monitor.at(Phase::data, done);
      std::this_thread::sleep_for(std::chrono::minutes(1));
    }
  }
}

/// Rank 1 fails by itself and says why; the others wait for a device.
void fails_with_a_note(const World& world) {
  Monitor monitor(world, monitor_options(std::chrono::minutes(1)));
  monitor.at(Phase::step, 1);
  dist::barrier(world);
  if (world.rank() == 1) {
    monitor.note_failure("out of memory: 3 GiB were asked for\nand not there");
    throw environment_error("out of memory");
  }
  std::this_thread::sleep_for(std::chrono::minutes(1));
}

/// An orderly end at different times: those who stay see the others' connections close.
void leaves_at_different_times(const World& world) {
  Monitor monitor(world, monitor_options(std::chrono::minutes(1)));
  monitor.at(Phase::end, 1);
  dist::barrier(world);
  std::this_thread::sleep_for(milliseconds(600) * world.rank());
}

/// Rank 1 is gone without a word before the others leave.
void leaves_the_dead(const World& world) {
  dist::barrier(world);
  if (world.rank() == 1) std::_Exit(0);
}

void fails_in_backward(const World& world) {
  const Net net(1);
  const Samples samples = make_samples(4);
  dist::DistributedDataParallel ddp(world, net.parameters, {}, {});
  ddp.prepare_forward();
  const at::Tensor loss = summed_loss(net, samples);
  dist::barrier(world);
  if (world.rank() == 1) std::_Exit(0);
  ddp.prepare_backward({loss});
  const std::string message = message_of_error(
      ErrorKind::peer, [&] { dist::with_peer_errors(world, "the backward", [&] { loss.backward(); }); });
  require_contains(message, "the backward failed on rank 0");
  require_contains(message, "rank 1 (");
  message_of_error(ErrorKind::usage, [&] {
    dist::with_peer_errors(world, "the backward", [] { throw usage_error("not the group's"); });
  });
  say("as expected");
  throw Error(ErrorKind::peer, message);
}

}  // namespace

std::map<std::string, Role> failure_roles() {
  return {{"steps", steps},
          {"stuck_in_the_device", stuck_in_the_device},
          {"hangs", hangs},
          {"fails_with_a_note", fails_with_a_note},
          {"leaves_at_different_times", leaves_at_different_times},
          {"leaves_the_dead", leaves_the_dead},
          {"fails_in_backward", fails_in_backward}};
}

}  // namespace ampctl::test
