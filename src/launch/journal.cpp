#include "launch/journal.h"

#include <unistd.h>

#include "base/utc_time.h"
#include "launch/console.h"
#include "launch/rank_files.h"

namespace ampctl::launch {
namespace {

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
  const std::string line = utc_now() + " " + text + "\n";
  // A full disk must not end what it would be reported about.
  [[maybe_unused]] const auto written = write(file_.get(), line.data(), line.size());
}

}  // namespace ampctl::launch
