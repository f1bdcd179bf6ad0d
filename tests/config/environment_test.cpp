#include <cstdlib>
#include <string>

#include "support/catch.h"
#include "texts.h"

namespace config = ampctl::config;
namespace test = ampctl::test;
using config::load_text;
using test::message_of;
using test::minimal;

namespace {

// Sets a variable for the time of a test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("variables are replaced in values, with or without default, also inside text") {
  const Variable folder("AMPCTL_T_DIR", "/d");
  const Variable rate("AMPCTL_T_LR", "2e-3");
  const auto config = load_text(minimal() +
                                    "optimizer: {lr: \"${AMPCTL_T_LR}\"}\n"
                                    "seed: ${AMPCTL_T_UNSET:7}\n"
                                    "output: ${AMPCTL_T_DIR}/x${AMPCTL_T_UNSET:}-${AMPCTL_T_UNSET:a:b}\n",
                                "e.yaml");
  CHECK(config.optimizer.lr == 2e-3);
  CHECK(config.seed == 7);
  CHECK(config.output == "/d/x-a:b");
}

TEST_CASE("a value from the environment is not looked at again and $${ is a literal") {
  const Variable nested("AMPCTL_T_NESTED", "${AMPCTL_T_OTHER}");
  CHECK(load_text(minimal() + "output: ${AMPCTL_T_NESTED}\n", "e.yaml").output == "${AMPCTL_T_OTHER}");
  CHECK(load_text(minimal() + "output: a$${b}$c\n", "e.yaml").output == "a${b}$c");
}

TEST_CASE("a plain value that becomes empty is null") {
  const std::string text =
      "model:\n  name: mlp\n  weights: ${AMPCTL_T_UNSET:}\n" + minimal().substr(minimal().find("data:"));
  CHECK_FALSE(load_text(text, "e.yaml").model.weights.has_value());
}

TEST_CASE("an unset variable without default is told with its place") {
  CHECK(message_of(minimal() + "output: runs/${AMPCTL_T_UNSET}\n") ==
        "e.yaml:6:9: the environment variable AMPCTL_T_UNSET is not set; set it, or write "
        "${AMPCTL_T_UNSET:default}");
  CHECK(message_of(minimal() + "output: ${oh no}\n") ==
        "e.yaml:6:9: expected ${NAME} or ${NAME:default}, found '${oh no}' (write $${ for a literal ${)");
  CHECK(message_of(minimal() + "output: ${OPEN\n") == "e.yaml:6:9: expected '}' after '${OPEN'");
}

TEST_CASE("a wrong value from the environment is refused like any other") {
  const Variable batch("AMPCTL_T_SEED", "many");
  CHECK(message_of(minimal() + "seed: ${AMPCTL_T_SEED}\n") ==
        "e.yaml:6:7: seed: expected an integer >= 0, found 'many'");
}
