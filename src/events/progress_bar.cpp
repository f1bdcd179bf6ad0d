#include "events/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/format.h"

namespace ampctl::events {
namespace {

constexpr size_t kMinBar = 10;
constexpr size_t kMaxBar = 30;
constexpr const char* kGap = "  ";

struct Part {
  std::string text;
  int rank;  // 0 stays longest
};

std::string bar(double share, size_t cells) {
  const double filled = std::clamp(share, 0.0, 1.0) * static_cast<double>(cells);
  const auto done = static_cast<size_t>(filled);
  std::string text(done, '=');
  if (done < cells) text += '>';
  text.resize(cells, ' ');
  return "[" + text + "]";
}

size_t joined_length(const std::vector<Part>& parts) {
  size_t length = 0;
  for (const auto& part : parts) length += part.text.size() + std::char_traits<char>::length(kGap);
  return length;
}

// The first part stands before the bar, the others after it.
std::string fit(std::vector<Part> parts, double share, int width) {
  std::erase_if(parts, [](const Part& part) { return part.text.empty(); });
  const auto columns = static_cast<size_t>(std::max(width, 1));
  const size_t brackets = 2;
  while (parts.size() > 1 && joined_length(parts) + brackets + kMinBar > columns) {
    const auto least = std::max_element(parts.begin() + 1, parts.end(),
                                        [](const Part& a, const Part& b) { return a.rank < b.rank; });
    if (least->rank == 0) break;
    parts.erase(least);
  }
  const size_t taken = joined_length(parts) + brackets;
  std::string line = parts.empty() ? std::string() : parts.front().text;
  if (taken + kMinBar <= columns) line += kGap + bar(share, std::min(kMaxBar, columns - taken));
  for (size_t i = 1; i < parts.size(); ++i) line += kGap + parts[i].text;
  return line.substr(0, columns);
}

}  // namespace

std::string bar_line(const StepFields& f, int width) {
  return fit({{f.epoch, 0},
              {f.steps, 0},
              {f.percent, 2},
              {f.loss, 0},
              {f.speed, 1},
              {f.data_wait, 7},
              {f.lr, 8},
              {f.scale, 6},
              {f.skipped, 5},
              {f.memory, 9},
              {f.corrupt, 4},
              {f.eta, 3}},
             f.share, width);
}

std::string activity_line(const std::string& epoch, const Progress& progress, int width) {
  const double share =
      progress.total > 0 ? static_cast<double>(progress.done) / static_cast<double>(progress.total) : 0.0;
  const std::string count = std::to_string(progress.done) +
                            (progress.total > 0 ? "/" + std::to_string(progress.total) : std::string());
  return fit({{(epoch.empty() ? "" : epoch + kGap) + printable(progress.activity), 0}, {count, 0}}, share,
             width);
}

}  // namespace ampctl::events
