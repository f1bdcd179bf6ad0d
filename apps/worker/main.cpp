// ampctl-worker: one process a GPU. Takes the resolved configuration from the front end and trains.
#include <cstdlib>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <c10/util/Logging.h>

#include "base/error.h"
#include "base/file.h"
#include "commands.h"
#include "config/load.h"
#include "failure.h"
#include "probe.h"
#include "stop_signals.h"

namespace ampctl::worker {
namespace {

// A start-up stuck for so long after a stop request is given up (preemption notices allow 20 s and more).
constexpr std::chrono::seconds kStartupLimit{12};

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0) {
      throw Error(ErrorKind::internal, "--config-fd: expected a descriptor that can be read, found " +
                                           std::to_string(fd) + "; `ampctl train` and `ampctl eval` pass it");
    }
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
  }
}

// Files opened later must not take the numbers of standard streams that were closed, or messages would be
// written into them.
void keep_standard_streams() {
  for (int fd = open("/dev/null", O_RDWR); fd >= 0; fd = open("/dev/null", O_RDWR)) {
    if (fd <= STDERR_FILENO) continue;
    close(fd);
    return;
  }
}

int run(int argc, char** argv) {
  CLI::App app("ampctl-worker: started by ampctl, one process a GPU", "ampctl-worker");
  bool probe = false;
  int config_fd = -1;
  EvalRequest eval;
  BenchRequest bench;
  app.add_flag("--probe", probe, "print what LibTorch knows of this machine, as JSON");
  auto* train = app.add_subcommand("train", "train the configuration read from a descriptor");
  auto* evaluate = app.add_subcommand("eval", "evaluate a checkpoint");
  auto* measure = app.add_subcommand("bench", "measure training steps");
  for (auto* command : {train, evaluate, measure}) command->add_option("--config-fd", config_fd)->required();
  evaluate->add_option("--checkpoint", eval.checkpoint);
  evaluate->add_flag("--json", eval.json);
  measure->add_option("--warmup", bench.blocks.warmup_steps)->check(CLI::PositiveNumber);
  measure->add_option("--steps", bench.blocks.steps)->check(CLI::PositiveNumber);
  measure->add_option("--blocks", bench.blocks.blocks)->check(CLI::PositiveNumber);
  measure->add_flag("--resident", bench.resident);
  measure->add_flag("!--no-profile", bench.profile);
  measure->add_option("--result", bench.result)->required();
  app.require_subcommand(0, 1);
  CLI11_PARSE(app, argc, argv);

  if (probe) return run_probe();
  if (app.get_subcommands().empty())
    throw usage_error("ampctl-worker is started by `ampctl train`, `ampctl eval` or `ampctl bench`");
  StopSignals signals(kStartupLimit);
  const auto config = config::load_text(read_all(config_fd), "resolved configuration");
  if (train->parsed()) return train_command(config, signals);
  return evaluate->parsed() ? eval_command(config, eval, signals) : bench_command(config, bench, signals);
}

}  // namespace

int worker_main(int argc, char** argv) {
  keep_standard_streams();
  // c10d prints stack traces around failures that this program reports itself; who sets the variable sees
  // them.
  setenv("TORCH_CPP_LOG_LEVEL", "ERROR", 0);
  // The profiler's library complains about machines without a GPU; 5 is beyond its errors.
  setenv("KINETO_LOG_LEVEL", "5", 0);
  c10::initLogging();
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    const Failure failure = describe(error);
    say(failure);
    return failure.exit_code;
  }
}

}  // namespace ampctl::worker

int main(int argc, char** argv) { return ampctl::worker::worker_main(argc, argv); }
