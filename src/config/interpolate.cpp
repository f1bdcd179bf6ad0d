#include "config/interpolate.h"

#include <cctype>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace ampctl::config {
namespace {

bool is_variable_name(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) return false;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return true;
}

// The value of what stands between the braces, or the reason why there is none.
struct Looked {
  std::optional<std::string> value;
  std::string problem;
};

Looked look_up(std::string_view inside) {
  const size_t colon = inside.find(':');
  const std::string name(inside.substr(0, colon));
  if (!is_variable_name(name)) {
    return {std::nullopt, "expected ${NAME} or ${NAME:default}, found '${" + shortened(std::string(inside)) +
                              "}' (write $${ for a literal ${)"};
  }
  if (const char* value = std::getenv(name.c_str())) return {value, {}};
  if (colon != std::string_view::npos) return {std::string(inside.substr(colon + 1)), {}};
  return {std::nullopt,
          "the environment variable " + name + " is not set; set it, or write ${" + name + ":default}"};
}

bool replace_variables(Node& node, Problems& problems) {
  const std::string& text = node.text;
  std::string result;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, 3, "$${") == 0) {
      result += "${";
      i += 3;
    } else if (text.compare(i, 2, "${") == 0) {
      const size_t end = text.find('}', i);
      if (end == std::string::npos) {
        problems.add(node.order, node.where, "expected '}' after '" + shortened(text.substr(i)) + "'");
        return false;
      }
      Looked looked = look_up(std::string_view(text).substr(i + 2, end - i - 2));
      if (!looked.value) {
        problems.add(node.order, node.where, looked.problem);
        return false;
      }
      result += *looked.value;
      i = end + 1;
    } else {
      result += text[i++];
    }
  }
  node.text = std::move(result);
  return true;
}

}  // namespace

void interpolate(Node& node, Problems& problems) {
  for (auto& item : node.items) interpolate(item, problems);
  for (auto& entry : node.entries) interpolate(entry.value, problems);
  if (node.kind != Node::Kind::scalar || node.text.find("${") == std::string::npos) return;
  if (!replace_variables(node, problems)) {
    node.kind = Node::Kind::invalid;
  } else if (!node.quoted && node.text.empty()) {
    node.kind = Node::Kind::null;
  }
  // Quotes around a variable are needed inside { }, and say nothing about the value's type.
  node.quoted = false;
}

}  // namespace ampctl::config
