#include "e2e/launcher.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "e2e/programs.h"
#include "launch/environment.h"

namespace ampctl::test {
namespace fs = std::filesystem;
namespace {

launch::Variables variables_of(const fs::path& process) {
  std::istringstream entries(LightRun::text(process / "environ"));
  launch::Variables variables;
  for (std::string entry; std::getline(entries, entry, '\0');) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos) variables[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return variables;
}

// A zombie has ended: it only waits for its parent to look.
bool is_alive(const fs::path& process) {
  const std::string stat = LightRun::text(process / "stat");
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.compare(name_end, 3, ") Z") != 0;
}

}  // namespace

LightRun::LightRun() { write_text(folder() / "small.yaml", small_experiment()); }

std::string LightRun::text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

LightRun::Words LightRun::command(const Words& flags) const {
  Words words{
      kAmpctl, "train", "-c", (folder() / "small.yaml").string(), "--output", (folder() / "run").string()};
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

LightRun::Words LightRun::environment(const Words& env) const {
  Words all{"AMPCTL_WORKER=" AMPCTL_LIGHT_WORKER, "LIGHT_RUN=" + folder().string()};
  all.insert(all.end(), env.begin(), env.end());
  return all;
}

ProcessResult LightRun::run(const Words& flags, const Words& env) const {
  return test::run(command(flags), environment(env));
}

std::unique_ptr<BackgroundProcess> LightRun::start(const Words& flags, const Words& env) const {
  return std::make_unique<BackgroundProcess>(command(flags), folder() / "terminal.log", environment(env));
}

std::map<int64_t, pid_t> LightRun::workers() const {
  std::map<int64_t, pid_t> found;
  for (const auto& process : fs::directory_iterator("/proc")) {
    const std::string name = process.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto variables = variables_of(process.path());
    const auto* run = launch::find(variables, "LIGHT_RUN");
    const auto* rank = launch::find(variables, "RANK");
    if (run == nullptr || rank == nullptr || *run != folder().string()) continue;
    if (is_alive(process.path())) found[std::stoll(*rank)] = std::stoi(name);
  }
  return found;
}

bool LightRun::has_workers(std::size_t count) const {
  return eventually([&] { return workers().size() == count; }, kSoon);
}

}  // namespace ampctl::test
