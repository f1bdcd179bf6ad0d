#include "stop_signals.h"

#include <csignal>
#include <cstring>
#include <ctime>
#include <string>

#include <pthread.h>
#include <unistd.h>

#include "base/error.h"

namespace ampctl::worker {
namespace {

using Clock = std::chrono::steady_clock;
constexpr timespec kPoll{0, 200'000'000};

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set, number);
  return set;
}

[[noreturn]] void end_by(int number) {
  ::signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(number);
  _exit(128 + number);
}

void say(const std::string& text) {
  // The terminal may be gone; there is nobody else to tell.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

StopSignals::StopSignals(std::chrono::seconds startup_limit) {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  // Over a file size limit a write then fails, and is reported, where the signal would kill.
  ::signal(SIGXFSZ, SIG_IGN);
  watcher_ = std::thread([this, startup_limit] { watch(startup_limit); });
}

StopSignals::~StopSignals() {
  quit_.store(true);
  watcher_.join();
}

void StopSignals::watch(std::chrono::seconds startup_limit) {
  const sigset_t set = stop_set();
  Clock::time_point deadline = Clock::time_point::max();
  while (!quit_.load()) {
    const int number = sigtimedwait(&set, nullptr, &kPoll);
    if (number > 0 && requested_.load() && number == SIGINT) end_by(SIGINT);
    if (number > 0 && !requested_.load()) {
      signal_.store(number);
      requested_.store(true);
      deadline = Clock::now() + startup_limit;
    }
    if (!started_.load() && Clock::now() > deadline) {
      say(std::string("ampctl: stopped by ") + strsignal(signal_.load()) +
          " while start-up was stuck; nothing was trained since the last checkpoint, run the same command "
          "again\n");
      _exit(kExitPreempted);
    }
  }
}

}  // namespace ampctl::worker
