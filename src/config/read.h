// From a tree of YAML values to an ExperimentConfig: a visitor over the field descriptions.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/describe.h"
#include "config/yaml_tree.h"

namespace ampctl::config {

/// What the sources said of a field.
struct Origin {
  Position where;     ///< of the value
  int order = 0;      ///< rank of the source
  bool valid = true;  ///< false: refused, the default stands in its place
  bool null = false;  ///< null or an empty list
};

/// By dotted key; only what was given.
class Origins {
 public:
  void record(const std::string& key, const Origin& origin) { origins_[key] = origin; }
  void forget(const std::string& key) { origins_.erase(key); }
  [[nodiscard]] const Origin* find(const std::string& key) const;
  /// Given, with a value.
  [[nodiscard]] bool has(const std::string& key) const;
  /// False when what was given has been refused; then nothing follows from the value.
  [[nodiscard]] bool trusted(const std::string& key) const;
  /// Where to point for a key, or for the nearest section above it that was given.
  [[nodiscard]] Origin nearest(const std::string& key) const;

 private:
  std::map<std::string, Origin> origins_;
};

class Reader : public Visitor {
 public:
  /// `root` is a map.
  Reader(const Node& root, Origins& origins, Problems& problems);
  /// Reads a part of a tree, for keys below `path`.
  Reader(const Node& root, std::string path, Origins& origins, Problems& problems);
  /// Reports the keys of `root` that no field has.
  void finish();

 protected:
  void field(const Field& field, FieldValue value) override;
  bool enter(const Section& section) override;
  void leave() override;

 private:
  struct Level {
    const Node* node = nullptr;  // null: the section was not given
    std::string path;
    std::vector<std::string> known;
    std::set<std::string> refused;  // fields whose value was not accepted
    bool broken = false;            // given, but not as a map: what it lacks is not missed
  };

  const Entry* take(const std::string& name);
  [[nodiscard]] std::string key(const std::string& name) const;
  bool option_applies(const Field& field, const Entry& entry);
  bool read(const Field& field, const Node& node, FieldValue value);
  void report_unknown(const Level& level);

  std::vector<Level> levels_;
  Origins& origins_;
  Problems& problems_;
};

/// Reads a transforms list. False, with problems added, when something in it is wrong.
bool read_transforms(const Node& node, const std::string& key, std::vector<TransformConfig>& value,
                     Origins& origins, Problems& problems);

/// Every dotted key of an experiment file, sections left out.
const std::vector<std::string>& all_keys();

}  // namespace ampctl::config
