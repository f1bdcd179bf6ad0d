// Does what it is told with a folder of checkpoints; run with io_fault preloaded by fault_test.cpp.
// Usage: checkpoint_save_program <checkpoints> (save:<step>:<letter> | point:<link>:<step> |
// retain:<keep>)...
#include <iostream>
#include <sstream>

#include "example.h"

namespace {

using namespace ampctl;

void perform(const std::filesystem::path& checkpoints, const std::string& command) {
  std::istringstream words(command);
  std::string verb;
  std::string first;
  std::string second;
  std::getline(words, verb, ':');
  std::getline(words, first, ':');
  std::getline(words, second, ':');
  if (verb == "save") test::save_example(checkpoints, std::stoll(first), second.at(0));
  if (verb == "point") {
    checkpoint::point(checkpoints, first, checkpoints / checkpoint::folder_name(std::stoll(second)));
  }
  if (verb == "retain") checkpoint::retain(checkpoints, std::stoll(first));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    for (int i = 2; i < argc; ++i) perform(argv[1], argv[i]);
  } catch (const Error& error) {
    std::cerr << error.what() << "\n";
    return exit_code(error.kind());
  }
  return kExitDone;
}
