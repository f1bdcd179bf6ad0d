#include "dist/facts.h"

#include <algorithm>
#include <set>
#include <sstream>

#include <ATen/ops/full.h>

#include "base/checksum.h"
#include "dist/collectives.h"
#include "dist/rank_list.h"

namespace ampctl::dist {
namespace {

// Neither occurs in names and values.
constexpr char kValueFollows = '\x1f';
constexpr char kFactEnds = '\x1e';
constexpr size_t kNamedDifferences = 20;
constexpr const char* kAbsent = "(absent)";

std::string serialized(const Facts& facts) {
  std::string text;
  for (const auto& [name, value] : facts) text += name + kValueFollows + value + kFactEnds;
  return text;
}

Facts parsed(const std::string& text) {
  Facts facts;
  std::istringstream in(text);
  for (std::string fact; std::getline(in, fact, kFactEnds);) {
    const size_t split = fact.find(kValueFollows);
    facts.emplace_back(fact.substr(0, split), fact.substr(split + 1));
  }
  return facts;
}

int64_t digest(const std::string& text) {
  constexpr int kCrcBits = 32;
  Crc32 crc;
  crc.update(text.data(), text.size());
  return (static_cast<int64_t>(text.size()) << kCrcBits) | crc.value();
}

bool all_have(const World& world, int64_t value) {
  const auto gathered = gather_host(world, at::full({1}, value, at::kLong));
  return std::all_of(gathered.begin(), gathered.end(),
                     [&](const at::Tensor& other) { return other.item<int64_t>() == value; });
}

/// Names in the order in which they first come, ranks one after another.
std::vector<std::string> all_names(const std::vector<Facts>& by_rank) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const auto& facts : by_rank) {
    for (const auto& [name, value] : facts) {
      if (seen.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

std::string value_of(const Facts& facts, const std::string& name) {
  const auto found =
      std::find_if(facts.begin(), facts.end(), [&](const auto& fact) { return fact.first == name; });
  return found == facts.end() ? kAbsent : found->second;
}

/// "lr: 0.1 on rank 0; 0.2 on ranks 1-3"; "" when all ranks have the same.
std::string difference(const std::vector<Facts>& by_rank, const std::string& name) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> values;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const std::string value = value_of(by_rank[rank], name);
    auto group =
        std::find_if(values.begin(), values.end(), [&](const auto& known) { return known.first == value; });
    if (group == values.end()) group = values.insert(values.end(), {value, {}});
    group->second.push_back(static_cast<int64_t>(rank));
  }
  if (values.size() == 1) return "";
  std::string text = name + ": ";
  for (const auto& [value, ranks] : values) {
    text += (&value == &values.front().first ? "" : "; ") + value + " on " + rank_list(ranks);
  }
  return text;
}

std::string differences(const std::vector<Facts>& by_rank) {
  std::string text;
  size_t count = 0;
  for (const auto& name : all_names(by_rank)) {
    const std::string line = difference(by_rank, name);
    if (!line.empty() && ++count <= kNamedDifferences) text += "\n  " + line;
  }
  if (count > kNamedDifferences) text += "\n  and " + std::to_string(count - kNamedDifferences) + " more";
  return text;
}

std::string order_difference(const std::vector<Facts>& by_rank) {
  for (size_t rank = 1; rank < by_rank.size(); ++rank) {
    if (by_rank[rank] != by_rank[0]) return "\n  the same in another order on rank " + std::to_string(rank);
  }
  return "";
}

}  // namespace

std::string find_differences(const World& world, const Facts& facts) {
  const std::string own = serialized(facts);
  if (world.size() == 1 || all_have(world, digest(own))) return "";
  std::vector<Facts> by_rank;
  by_rank.reserve(static_cast<size_t>(world.size()));
  for (const auto& text : gather_texts(world, own)) by_rank.push_back(parsed(text));
  const std::string found = differences(by_rank);
  return found.empty() ? order_difference(by_rank) : found;
}

}  // namespace ampctl::dist
