// A worker without LibTorch, for tests of the launcher: all ranks meet at rank 0's port, hold, and leave. It
// ends with 5 when another rank or the launcher has ended, with 75 when it is asked to stop.
//
//   LIGHT_DO        what ranks do once all have met: "RANK:exit:CODE", "RANK:error:CODE" (with an error
//   file),
//                   "RANK:signal:NUMBER", several separated by ';'
//   LIGHT_ATTEMPTS  only in so many first attempts (default: in all)
//   LIGHT_HOLD      milliseconds from the meeting to leaving (default 0; -1: for ever)
//   LIGHT_DEAF      "signals": requests to stop are not heeded; "peers": nor are ends of other ranks; "all"
//   LIGHT_SAY       a line for standard output, and one for standard error
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "launch/error_file.h"
#include "launch/store_socket.h"
#include "launch/worker_place.h"

namespace {

using ampctl::Error;
using ampctl::ErrorKind;
using ampctl::FileDescriptor;
using ampctl::launch::WorkerPlace;
using Clock = std::chrono::steady_clock;

constexpr char kGo = 'g';
constexpr char kBye = 'b';

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int64_t number_or(const std::string& text, int64_t otherwise) {
  return text.empty() ? otherwise : std::stoll(text);
}

// The connections of a rank: to all others from rank 0, to rank 0 from all others.
class Meeting {
 public:
  explicit Meeting(const WorkerPlace& place) : place_(place) {
    if (place.rank == 0) {
      listener_ = place.store_listen_fd
                      ? FileDescriptor(*place.store_listen_fd)
                      : ampctl::launch::open_store_socket(place.master_addr, place.master_port).fd;
    } else {
      connect_to_master();
    }
  }

  void watch(std::vector<pollfd>& waiting) const {
    waiting.push_back({place_.rank == 0 && !met_ ? listener_.get() : -1, POLLIN, 0});
    for (const auto& [fd, peer] : peers_) waiting.push_back({peer.left || peer.lost ? -1 : fd, POLLIN, 0});
  }

  // Returns false when a peer ended without leaving.
  bool read_from(int fd) {
    if (fd == listener_.get()) {
      const int peer = accept(fd, nullptr, nullptr);
      if (peer >= 0) peers_.emplace(peer, Peer{FileDescriptor(peer), false, false});
      if (peers_.size() + 1 == static_cast<std::size_t>(place_.world_size)) say(kGo);
      return true;
    }
    char word = 0;
    Peer& peer = peers_.at(fd);
    peer.lost = read(fd, &word, 1) != 1;
    if (peer.lost) return peer.left;
    met_ = met_ || word == kGo;
    peer.left = peer.left || word == kBye;
    return true;
  }

  void say(char word) {
    met_ = met_ || word == kGo;
    for (const auto& [fd, peer] : peers_) send(fd, &word, 1, MSG_NOSIGNAL);
  }

  [[nodiscard]] bool met() const { return met_ || place_.world_size == 1; }
  [[nodiscard]] bool all_left() const {
    for (const auto& [fd, peer] : peers_) {
      if (!peer.left) return false;
    }
    return true;
  }

 private:
  struct Peer {
    FileDescriptor fd;
    bool left = false;
    bool lost = false;
  };

  void connect_to_master() {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(place_.master_port);
    inet_pton(AF_INET, place_.master_addr.c_str(), &address.sin_addr);
    // Rank 0's node may start later.
    constexpr int kTries = 100;
    constexpr std::chrono::milliseconds kPause(100);
    for (int tries = 0; connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0;) {
      if (++tries == kTries) throw Error(ErrorKind::peer, "rank 0 cannot be reached");
      std::this_thread::sleep_for(kPause);
    }
    const int fd = socket.get();
    peers_.emplace(fd, Peer{std::move(socket), false, false});
  }

  const WorkerPlace& place_;
  FileDescriptor listener_;
  std::map<int, Peer> peers_;
  bool met_ = false;
};

void do_as_told(const WorkerPlace& place) {
  if (place.restart_count >= number_or(variable("LIGHT_ATTEMPTS"), place.restart_count + 1)) return;
  std::istringstream orders(variable("LIGHT_DO"));
  for (std::string order; std::getline(orders, order, ';');) {
    std::istringstream words(order);
    int64_t rank = 0;
    int value = 0;
    std::string action;
    words >> rank;
    words.ignore();
    std::getline(words, action, ':');
    words >> value;
    if (rank != place.rank) continue;
    if (action == "signal") kill(getpid(), value);
    if (action == "error")
      ampctl::launch::write_error_file(*place.error_file, "rank was told to fail", value);
    if (action != "signal") _exit(value);
  }
}

int stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set, number);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  return signalfd(-1, &set, SFD_CLOEXEC);
}

class Worker {
 public:
  explicit Worker(const WorkerPlace& place) : place_(place), meeting_(place), signals_(stop_signals()) {}

  int run() {
    const std::string deaf = variable("LIGHT_DEAF");
    deaf_to_signals_ = deaf == "signals" || deaf == "all";
    deaf_to_peers_ = deaf == "peers" || deaf == "all";
    while (!end_) {
      if (meeting_.met() && !held_since_) begin_hold();
      wait();
    }
    return *end_;
  }

 private:
  void begin_hold() {
    held_since_ = Clock::now();
    if (place_.rank == 0) std::cout << "met " << place_.world_size << std::endl;
    do_as_told(place_);
  }

  void wait() {
    const auto hold = number_or(variable("LIGHT_HOLD"), 0);
    int timeout = -1;
    if (held_since_ && hold >= 0 && !said_bye_) {
      const auto left = *held_since_ + std::chrono::milliseconds(hold) - Clock::now();
      timeout =
          static_cast<int>(std::max<int64_t>(0, std::chrono::ceil<std::chrono::milliseconds>(left).count()));
    }
    std::vector<pollfd> waiting{{signals_.get(), POLLIN, 0}, {place_.launcher_fd.value_or(-1), POLLIN, 0}};
    meeting_.watch(waiting);
    if (poll(waiting.data(), waiting.size(), timeout) == 0) {
      said_bye_ = true;
      meeting_.say(kBye);
    }
    if (waiting[0].revents != 0) take_signal();
    if (waiting[1].revents != 0) end(ampctl::kExitPeer, "the launcher is gone");
    for (std::size_t i = 2; i < waiting.size(); ++i) {
      const bool lost = waiting[i].revents != 0 && !meeting_.read_from(waiting[i].fd);
      if (lost && !deaf_to_peers_) end(ampctl::kExitPeer, "a peer has ended");
    }
    if (said_bye_ && meeting_.all_left()) end(ampctl::kExitDone, "");
  }

  void take_signal() {
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof(info)) != sizeof(info) || deaf_to_signals_) return;
    end(ampctl::kExitPreempted, "asked to stop by signal " + std::to_string(info.ssi_signo));
  }

  void end(int code, const std::string& why) {
    if (end_) return;
    end_ = code;
    if (!why.empty()) std::cerr << "light worker: " << why << std::endl;
  }

  const WorkerPlace& place_;
  Meeting meeting_;
  FileDescriptor signals_;
  bool deaf_to_signals_ = false;
  bool deaf_to_peers_ = false;
  std::optional<Clock::time_point> held_since_;
  bool said_bye_ = false;
  std::optional<int> end_;
};

}  // namespace

int main() {
  const WorkerPlace place = ampctl::launch::worker_place(ampctl::launch::process_variables());
  if (const auto line = variable("LIGHT_SAY"); !line.empty()) {
    std::cout << line << " on stdout" << std::endl;
    std::cerr << line << " on stderr" << std::endl;
  }
  try {
    return Worker(place).run();
  } catch (const Error& error) {
    std::cerr << "light worker: " << error.what() << std::endl;
    return ampctl::exit_code(error.kind());
  }
}
