#include "launch/launcher_signals.h"

#include <cerrno>
#include <cstring>
#include <string>

#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"

namespace ampctl::launch {

LauncherSignals::LauncherSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGCHLD}) sigaddset(&set, number);
  fd_ = FileDescriptor(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (fd_.get() < 0) {
    throw environment_error(std::string("could not watch for signals (signalfd): ") + std::strerror(errno));
  }
  sigprocmask(SIG_BLOCK, &set, &before_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &hangup_);
  sigaction(SIGPIPE, &ignore, &broken_pipe_);
}

LauncherSignals::~LauncherSignals() {
  sigaction(SIGHUP, &hangup_, nullptr);
  sigaction(SIGPIPE, &broken_pipe_, nullptr);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::vector<int> LauncherSignals::take() const {
  std::vector<int> numbers;
  signalfd_siginfo info{};
  while (read(fd_.get(), &info, sizeof(info)) == sizeof(info)) {
    numbers.push_back(static_cast<int>(info.ssi_signo));
  }
  return numbers;
}

}  // namespace ampctl::launch
