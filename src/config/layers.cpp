#include "config/layers.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "config/interpolate.h"

namespace ampctl::config {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxChain = 16;  // files that extend each other in a row
constexpr int kMaxFiles = 100;    // files read in all

void lay_over(Node& base, Node over) {
  if (base.kind != Node::Kind::map || over.kind != Node::Kind::map) {
    base = std::move(over);
    return;
  }
  for (auto& entry : over.entries) {
    if (Entry* existing = base.find(entry.key)) {
      existing->where = entry.where;
      lay_over(existing->value, std::move(entry.value));
    } else {
      base.entries.push_back(std::move(entry));
    }
  }
}

// Reads no more than what is refused as too long anyway, so that an endless file does no harm.
bool read_text(const fs::path& path, std::string& text, std::string& reason) {
  if (fs::is_directory(path)) {
    reason = "a folder";
    return false;
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    reason = std::strerror(errno);
    return false;
  }
  text.resize(kMaxFileBytes + 1);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) {
    reason = std::strerror(errno);
    return false;
  }
  return true;
}

class Layers {
 public:
  explicit Layers(Problems& problems) : problems_(problems) { tree_.root.kind = Node::Kind::map; }

  void add_file(const fs::path& path) { read_file(path, {}, next_order_); }

  void add_text(const std::string& text, const std::string& name) {
    const Source source{std::make_shared<const std::string>(name), next_order_++};
    Node node = parse_yaml(text, source, problems_);
    interpolate(node, problems_);
    lay(std::move(node));
  }

  void add_override(const std::string& text) {
    const Source source{std::make_shared<const std::string>("--set " + shortened(text)), next_order_++,
                        false};
    const size_t equals = text.find('=');
    const std::string key = text.substr(0, equals);
    if (equals == std::string::npos || key.empty() || key.front() == '.' || key.back() == '.' ||
        key.find("..") != std::string::npos) {
      problems_.add(source.order, {source.name}, "expected dotted.key=value (such as optimizer.lr=0.01)");
      return;
    }
    if (static_cast<size_t>(std::ranges::count(key, '.')) >= kMaxDepth) {
      problems_.add(source.order, {source.name},
                    "expected a key of at most " + std::to_string(kMaxDepth) + " parts");
      return;
    }
    Node node = parse_yaml(text.substr(equals + 1), source, problems_);
    lay(nested(key, std::move(node)));
  }

  LayeredTree take() { return std::move(tree_); }

 private:
  static Node nested(const std::string& key, Node value) {
    const size_t dot = key.find('.');
    if (dot != std::string::npos) value = nested(key.substr(dot + 1), std::move(value));
    Node map;
    map.kind = Node::Kind::map;
    map.where = value.where;
    map.order = value.order;
    const Position where = value.where;
    map.entries.push_back({key.substr(0, dot), where, std::move(value)});
    return map;
  }

  void lay(Node node) {
    // An empty file says nothing; a broken one has been reported.
    if (node.kind == Node::Kind::null) return;
    if (node.kind == Node::Kind::map) {
      tree_.root.where = {node.where.source};
      tree_.root.order = node.order;
      lay_over(tree_.root, std::move(node));
      return;
    }
    tree_.complete = false;
    if (node.kind == Node::Kind::invalid) return;
    problems_.add(node.order, node.where, "expected a map of settings, found " + node.described());
  }

  void read_file(const fs::path& path, const Position& from, int from_order) {
    std::error_code unresolved;
    const fs::path canonical = fs::weakly_canonical(path, unresolved);
    const auto refuse = [&](const std::string& message) {
      tree_.complete = false;
      problems_.add(from_order,
                    from.source ? from : Position{std::make_shared<const std::string>(path.string())},
                    message);
    };
    if (std::ranges::find(chain_, canonical) != chain_.end()) {
      return refuse("extends: '" + path.string() + "' extends itself, directly or through others");
    }
    if (chain_.size() >= kMaxChain) {
      return refuse("extends: expected at most " + std::to_string(kMaxChain) + " files in a row, found more");
    }
    if (++files_ > kMaxFiles) {
      if (files_ == kMaxFiles + 1) {
        refuse("extends: expected at most " + std::to_string(kMaxFiles) + " files, found more");
      }
      return;
    }
    std::string text;
    std::string reason;
    if (!read_text(path, text, reason)) {
      return refuse(from.source
                        ? "extends: expected a readable file, found '" + path.string() + "': " + reason
                        : "expected a readable configuration file: " + reason);
    }
    chain_.push_back(canonical);
    // The rank is taken after the files below: what extends wins over what it extends.
    const auto name = std::make_shared<const std::string>(path.string());
    Node node = parse_yaml(text, {name, next_order_}, problems_);
    interpolate(node, problems_);
    read_extended(node, path);
    const int order = next_order_++;
    set_order(node, order);
    lay(std::move(node));
    chain_.pop_back();
  }

  void read_extended(Node& node, const fs::path& path) {
    const auto entry = std::ranges::find(node.entries, "extends", &Entry::key);
    if (entry == node.entries.end()) return;
    Node extends = std::move(entry->value);
    node.entries.erase(entry);
    std::vector<Node> files;
    if (extends.kind == Node::Kind::sequence) {
      files = std::move(extends.items);
    } else {
      files.push_back(std::move(extends));
    }
    for (const auto& file : files) {
      if (file.kind == Node::Kind::invalid) continue;
      if (file.kind != Node::Kind::scalar) {
        problems_.add(next_order_, file.where,
                      "extends: expected a file or a list of files, found " + file.described());
        continue;
      }
      read_file((path.parent_path() / file.text).lexically_normal(), file.where, next_order_);
    }
  }

  static void set_order(Node& node, int order) {
    node.order = order;
    for (auto& item : node.items) set_order(item, order);
    for (auto& entry : node.entries) set_order(entry.value, order);
  }

  Problems& problems_;
  LayeredTree tree_;
  std::vector<fs::path> chain_;
  int files_ = 0;
  int next_order_ = 0;
};

}  // namespace

LayeredTree merged_layers(const LoadRequest& request, Problems& problems) {
  Layers layers(problems);
  for (const auto& file : request.files) layers.add_file(file);
  for (const auto& text : request.overrides) layers.add_override(text);
  return layers.take();
}

LayeredTree single_layer(const std::string& text, const std::string& name, Problems& problems) {
  Layers layers(problems);
  layers.add_text(text, name);
  return layers.take();
}

}  // namespace ampctl::config
