#include "config/read.h"

#include <algorithm>

#include "config/nearest.h"
#include "config/read_value.h"
#include "config/walk.h"

namespace ampctl::config {

const Origin* Origins::find(const std::string& key) const {
  const auto found = origins_.find(key);
  return found == origins_.end() ? nullptr : &found->second;
}

bool Origins::has(const std::string& key) const {
  const Origin* origin = find(key);
  return origin != nullptr && !origin->null;
}

bool Origins::trusted(const std::string& key) const {
  const Origin* origin = find(key);
  return origin == nullptr || origin->valid;
}

Origin Origins::nearest(const std::string& key) const {
  for (std::string at = key;;) {
    if (const Origin* origin = find(at)) return *origin;
    if (at.empty()) return {};
    const size_t dot = at.rfind('.');
    at = dot == std::string::npos ? "" : at.substr(0, dot);
  }
}

Reader::Reader(const Node& root, Origins& origins, Problems& problems)
    : Reader(root, "", origins, problems) {}

Reader::Reader(const Node& root, std::string path, Origins& origins, Problems& problems)
    : origins_(origins), problems_(problems) {
  origins_.record(path, {root.where, root.order});
  levels_.push_back({&root, std::move(path), {}, {}, false});
}

std::string Reader::key(const std::string& name) const {
  const std::string& path = levels_.back().path;
  return path.empty() ? name : path + "." + name;
}

const Entry* Reader::take(const std::string& name) {
  Level& level = levels_.back();
  level.known.push_back(name);
  return level.node == nullptr ? nullptr : level.node->find(name);
}

void Reader::field(const Field& field, FieldValue value) {
  const Entry* entry = take(field.name);
  const std::string path = key(field.name);
  if (entry == nullptr) {
    if (!field.rule.is_required || !field.rule.applies() || levels_.back().broken) return;
    const Origin place = origins_.nearest(path);
    problems_.add(place.order, place.where, path + ": expected a value, found none");
    return;
  }
  if (!option_applies(field, *entry)) return;
  const bool good = read(field, entry->value, value);
  if (!good) levels_.back().refused.insert(field.name);
  const bool says_nothing = entry->value.kind == Node::Kind::null ||
                            (entry->value.kind == Node::Kind::sequence && entry->value.items.empty());
  origins_.record(path, {entry->value.where, entry->value.order, good, says_nothing});
}

// An option of another choice is a mistake, unless a later source made that choice: then the option belonged
// to the earlier one and went with it.
bool Reader::option_applies(const Field& field, const Entry& entry) {
  const Rule& rule = field.rule;
  if (rule.applies() || levels_.back().refused.contains(rule.selector)) return true;
  const std::string selector = key(rule.selector);
  const Origin* chosen = origins_.find(selector);
  if (chosen != nullptr && entry.value.order < chosen->order) return false;
  if (entry.value.kind == Node::Kind::null || entry.value.kind == Node::Kind::invalid) return false;
  const std::string found = rule.selected.empty() ? "not set" : "'" + rule.selected + "'";
  problems_.add(
      entry.value.order, entry.where,
      key(field.name) + ": an option of " + join_or(rule.owners) + ", and " + selector + " is " + found);
  return false;
}

bool Reader::read(const Field& field, const Node& node, FieldValue value) {
  const std::string path = key(field.name);
  const ValueReader reader{path, field.rule, problems_};
  if (auto** list = std::get_if<std::vector<TransformConfig>*>(&value)) {
    return read_transforms(node, path, **list, origins_, problems_);
  }
  return std::visit(Overloaded{[](std::vector<TransformConfig>*) { return false; },
                               [&](auto* plain) { return reader.read(node, *plain); }},
                    value);
}

bool Reader::enter(const Section& section) {
  const Entry* entry = take(section.name);
  const std::string path = key(section.name);
  const Node* node = entry == nullptr ? nullptr : &entry->value;
  if (node != nullptr && section.optional && node->kind == Node::Kind::null) node = nullptr;
  if (node == nullptr && section.optional) return false;
  if (node != nullptr && node->kind != Node::Kind::map) {
    if (node->kind != Node::Kind::invalid) {
      const std::string hint =
          node->kind == Node::Kind::null ? "; leave the section out to keep its defaults" : "";
      problems_.add(node->order, entry->where,
                    path + ": expected a map of settings, found " + node->described() + hint);
    }
    origins_.record(path, {entry->where, node->order, false});
    if (section.optional) return false;
    levels_.push_back({nullptr, path, {}, {}, true});
    return true;
  }
  if (node != nullptr) origins_.record(path, {entry->where, node->order});
  levels_.push_back({node, path, {}, {}, false});
  return true;
}

void Reader::leave() {
  report_unknown(levels_.back());
  levels_.pop_back();
}

void Reader::finish() { report_unknown(levels_.back()); }

void Reader::report_unknown(const Level& level) {
  if (level.node == nullptr) return;
  for (const auto& entry : level.node->entries) {
    if (std::ranges::find(level.known, entry.key) != level.known.end()) continue;
    const std::string prefix = level.path.empty() ? "" : level.path + ".";
    std::string hint = "expected one of " + join_or(level.known);
    if (const auto near = nearest(entry.key, level.known)) {
      hint = "did you mean '" + prefix + *near + "'?";
    } else {
      for (const auto& other : all_keys()) {
        if (other == entry.key || other.ends_with("." + entry.key)) {
          hint = "did you mean '" + other + "'?";
          break;
        }
      }
    }
    problems_.add(entry.value.order, entry.where,
                  prefix + shortened(entry.key) + ": unknown key (" + hint + ")");
  }
}

const std::vector<std::string>& all_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> result;
    for (const auto& section : all_sections()) {
      for (const auto& row : section.fields) result.push_back(row.key);
    }
    return result;
  }();
  return keys;
}

}  // namespace ampctl::config
