#include "config/yaml_tree.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace ampctl::config {
namespace {

struct Refused {
  Position where;
  std::string message;
};

struct Size {
  size_t nodes = 1;
  size_t bytes = 0;
};

Size size_of(const Node& node) {
  Size size{1, node.text.size()};
  const auto add = [&size](const Size& more) {
    size.nodes += more.nodes;
    size.bytes += more.bytes;
  };
  for (const auto& item : node.items) add(size_of(item));
  for (const auto& entry : node.entries) {
    size.bytes += entry.key.size();
    add(size_of(entry.value));
  }
  return size;
}

// A tab before a key leads to messages that do not speak of it.
std::string tab_hint(const std::string& text, int last_line) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 0; number <= last_line && std::getline(lines, line); ++number) {
    const size_t indent = std::min(line.find_first_not_of(" \t"), line.size());
    if (line.find('\t') < indent) {
      return "; line " + std::to_string(number + 1) + " is indented with a tab, where YAML wants spaces";
    }
  }
  return "";
}

class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const Source& source, Problems& problems) : source_(source), problems_(problems) {
    root_.where = {source.name};
    root_.order = source.order;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) throw Refused{at(mark), "expected one YAML document, found a second one"};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(leaf(mark, Node::Kind::null), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_unknown_tag(mark, tag);
    Node node = leaf(mark, Node::Kind::scalar);
    node.text = value;
    node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw Refused{at(mark), "this alias stands inside the value it names"};
    reserve(at(mark), size_of(found->second));
    add_counted(found->second);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, Node::Kind::sequence);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(mark, tag, anchor, Node::Kind::map);
  }
  void OnMapEnd() override {
    merge(stack_.back().node);
    close();
  }

  [[nodiscard]] Node take_root() { return std::move(root_); }  // null for an empty text

 private:
  struct Level {
    Node node;
    YAML::anchor_t anchor = YAML::NullAnchor;
    bool has_key = false;
    Entry entry;  // the key read last, waiting for its value
  };

  [[nodiscard]] Position at(const YAML::Mark& mark) const {
    if (!source_.has_lines) return {source_.name};
    return {source_.name, mark.line + 1, mark.column + 1};
  }

  Node leaf(const YAML::Mark& mark, Node::Kind kind) const {
    Node node;
    node.kind = kind;
    node.where = at(mark);
    node.order = source_.order;
    return node;
  }

  void refuse_unknown_tag(const YAML::Mark& mark, const std::string& tag) const {
    const bool known = tag.empty() || tag == "?" || tag == "!" || tag.starts_with("tag:yaml.org,2002:");
    if (!known) throw Refused{at(mark), "the YAML tag '" + shortened(tag) + "' is not known here"};
  }

  void reserve(const Position& where, const Size& more) {
    used_.nodes += more.nodes;
    used_.bytes += more.bytes;
    if (used_.nodes > kMaxNodes) {
      throw Refused{where, "expected at most " + std::to_string(kMaxNodes) +
                               " values with aliases written out, found more"};
    }
    if (used_.bytes > kMaxTextBytes) {
      throw Refused{where, "expected at most " + std::to_string(kMaxTextBytes) +
                               " bytes of text with aliases written out, found more"};
    }
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    refuse_unknown_tag(mark, tag);
    if (stack_.size() >= kMaxDepth) {
      throw Refused{at(mark), "expected at most " + std::to_string(kMaxDepth) +
                                  " levels of lists and maps inside each other, found more"};
    }
    if (!stack_.empty() && stack_.back().node.kind == Node::Kind::map && !stack_.back().has_key) {
      throw Refused{at(mark), "expected text as a key, found a list or a map; is a bracket left open?"};
    }
    reserve(at(mark), {});
    Level level;
    level.node = leaf(mark, kind);
    level.anchor = anchor;
    stack_.push_back(std::move(level));
  }

  void close() {
    Level level = std::move(stack_.back());
    stack_.pop_back();
    if (level.anchor != YAML::NullAnchor) {
      reserve(level.node.where, size_of(level.node));
      anchors_[level.anchor] = level.node;
    }
    add_counted(std::move(level.node));
  }

  void add(Node node, YAML::anchor_t anchor) {
    reserve(node.where, size_of(node));
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    add_counted(std::move(node));
  }

  void add_counted(Node node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = stack_.back();
    if (level.node.kind == Node::Kind::sequence) {
      level.node.items.push_back(std::move(node));
    } else if (!level.has_key) {
      begin_entry(level, node);
    } else {
      level.has_key = false;
      level.entry.value = std::move(node);
      level.node.entries.push_back(std::move(level.entry));
    }
  }

  void begin_entry(Level& level, const Node& key) {
    if (key.kind != Node::Kind::scalar)
      throw Refused{key.where, "expected text as a key, found " + key.described()};
    if (const Entry* earlier = level.node.find(key.text)) {
      problems_.add(source_.order, key.where,
                    shortened(key.text) + ": this key is given twice, first at line " +
                        std::to_string(earlier->where.line));
    }
    level.has_key = true;
    level.entry = Entry{key.text, key.where, {}};
  }

  // YAML's merge key: entries of the maps named are taken over unless the map has them itself.
  void merge(Node& map) {
    const auto merge_entry = std::ranges::find(map.entries, "<<", &Entry::key);
    if (merge_entry == map.entries.end()) return;
    Node merged = std::move(merge_entry->value);
    map.entries.erase(merge_entry);
    std::vector<Node> parts;
    if (merged.kind == Node::Kind::sequence) {
      parts = std::move(merged.items);
    } else {
      parts.push_back(std::move(merged));
    }
    for (auto& part : parts) {
      if (part.kind != Node::Kind::map)
        throw Refused{part.where, "<<: expected a map, found " + part.described()};
      for (auto& entry : part.entries) {
        if (map.find(entry.key) == nullptr) map.entries.push_back(std::move(entry));
      }
    }
  }

  const Source& source_;
  Problems& problems_;
  std::vector<Level> stack_;
  std::map<YAML::anchor_t, Node> anchors_;
  Size used_;
  Node root_;
  int documents_ = 0;
};

}  // namespace

const Entry* Node::find(const std::string& key) const {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &*found;
}

Entry* Node::find(const std::string& key) {
  const auto found = std::ranges::find(entries, key, &Entry::key);
  return found == entries.end() ? nullptr : &*found;
}

std::string Node::described() const {
  switch (kind) {
    case Kind::scalar:
      return (quoted ? "the text '" : "'") + shortened(text) + "'";
    case Kind::sequence:
      return "a list";
    case Kind::map:
      return "a map";
    default:
      return "null";
  }
}

Node parse_yaml(const std::string& text, const Source& source, Problems& problems) {
  Node invalid;
  invalid.kind = Node::Kind::invalid;
  invalid.where = {source.name};
  invalid.order = source.order;
  if (text.size() > kMaxFileBytes) {
    problems.add(source.order, invalid.where,
                 "expected at most " + std::to_string(kMaxFileBytes) + " bytes, found more");
    return invalid;
  }
  TreeBuilder builder(source, problems);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.take_root();
  } catch (const Refused& refused) {
    problems.add(source.order, refused.where, refused.message);
  } catch (const YAML::Exception& error) {
    Position where{source.name};
    if (source.has_lines && error.mark.line >= 0) {
      where = {source.name, error.mark.line + 1, error.mark.column + 1};
    }
    problems.add(source.order, where,
                 "expected valid YAML, found: " + error.msg + tab_hint(text, error.mark.line));
  }
  return invalid;
}

}  // namespace ampctl::config
