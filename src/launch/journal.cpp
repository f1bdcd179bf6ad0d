#include "launch/journal.h"

#include <array>
#include <ctime>

#include <unistd.h>

#include "launch/console.h"
#include "launch/rank_files.h"

namespace ampctl::launch {
namespace {

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, sizeof("2026-01-31T23:59:59Z")> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

void say(const std::string& text) {
  // Nobody reads: the file has it.
  static_cast<void>(write_now(STDERR_FILENO, "ampctl: " + text + "\n"));
}

}  // namespace

Journal::Journal(const std::filesystem::path& file, bool quiet) : file_(open_log(file)), quiet_(quiet) {}

void Journal::note(const std::string& text) const {
  if (!quiet_) say(text);
  record(text);
}

void Journal::error(const std::string& text) const {
  say("error: " + text);
  record("error: " + text);
}

void Journal::record(const std::string& text) const {
  const std::string line = now() + " " + text + "\n";
  // A full disk must not end what it would be reported about.
  [[maybe_unused]] const auto written = write(file_.get(), line.data(), line.size());
}

}  // namespace ampctl::launch
