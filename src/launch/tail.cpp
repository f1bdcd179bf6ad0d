#include "launch/tail.h"

#include <array>
#include <chrono>
#include <iterator>
#include <numeric>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "launch/console.h"

namespace ampctl::launch {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kReadSize = 65536;
// Then signals and ends are looked at.
constexpr int kPartsAtOnce = 16;
// A line longer than this is cut: a file without newlines must not fill the memory.
constexpr std::size_t kLongestLine = 65536;

}  // namespace

Tail::Tail(fs::path path, std::string prefix, int target)
    : path_(std::move(path)), prefix_(std::move(prefix)), target_(target) {
  std::error_code absent;
  const auto size = fs::file_size(path_, absent);
  if (!absent) offset_ = size;
}

void Tail::read_more() {
  more_ = false;
  // Opened for each read: hundreds of files would be more descriptors than a process usually may have.
  const FileDescriptor file(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(kReadSize, '\0');
  const ssize_t count = pread(file.get(), text.data(), text.size(), static_cast<off_t>(offset_));
  if (count <= 0) return;
  text.resize(static_cast<std::size_t>(count));
  offset_ += text.size();
  more_ = text.size() == kReadSize;
  for (const char byte : text) {
    if (byte != '\n') partial_ += byte;
    if (byte == '\n' || partial_.size() >= kLongestLine) end_line();
  }
}

void Tail::finish_line() {
  if (!partial_.empty()) end_line();
}

void Tail::end_line() {
  unsent_ += prefix_ + partial_ + "\n";
  partial_.clear();
}

bool Tail::pump() {
  for (int part = 0; part < kPartsAtOnce && unsent_.empty(); ++part) {
    read_more();
    unsent_.erase(0, write_now(target_, unsent_));
    if (!more_) break;
  }
  unsent_.erase(0, write_now(target_, unsent_));
  return unsent_.empty() && !more_;
}

Tails::Tails() : fd_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}

void Tails::add(const fs::path& path, const std::string& prefix, int target) {
  int watch = fd_.get() < 0 ? -1 : inotify_add_watch(fd_.get(), path.c_str(), IN_MODIFY);
  if (watch < 0) {
    // Out of watches: from now on all files are looked at.
    fd_ = FileDescriptor();
    watch = -static_cast<int>(tails_.size()) - 1;
  }
  tails_.emplace(watch, Tail(path, prefix, target));
}

void Tails::collect_grown() {
  constexpr std::size_t kEvents = 64;
  alignas(inotify_event) std::array<char, kEvents * sizeof(inotify_event)> buffer{};
  for (ssize_t count = 1; count > 0;) {
    count = read(fd_.get(), buffer.data(), buffer.size());
    for (ssize_t at = 0; at < count;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      if (event->wd < 0) {
        for (const auto& [watch, tail] : tails_) grown_[watch] = true;
      } else if (tails_.count(event->wd) != 0) {
        grown_[event->wd] = true;
      }
      at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }
}

bool Tails::pump() {
  if (fd_.get() < 0) return pump_all();
  collect_grown();
  for (auto entry = grown_.begin(); entry != grown_.end();) {
    entry = tails_.at(entry->first).pump() ? grown_.erase(entry) : std::next(entry);
  }
  return grown_.empty();
}

bool Tails::pump_all() {
  bool all = true;
  for (auto& [watch, tail] : tails_) all = tail.pump() && all;
  return all;
}

std::size_t Tails::waiting() const {
  return std::accumulate(tails_.begin(), tails_.end(), std::size_t{0},
                         [](std::size_t sum, const auto& entry) { return sum + entry.second.waiting(); });
}

void Tails::pump_while_taken() {
  constexpr int kTries = 50;
  constexpr std::chrono::milliseconds kPause(20);
  for (int tries = 0; !pump_all() && tries < kTries;) {
    const std::size_t before = waiting();
    if (before == 0) continue;
    std::this_thread::sleep_for(kPause);
    pump_all();
    tries = waiting() == before ? tries + 1 : 0;
  }
}

void Tails::finish() {
  pump_while_taken();
  for (auto& [watch, tail] : tails_) tail.finish_line();
  pump_while_taken();
}

}  // namespace ampctl::launch
