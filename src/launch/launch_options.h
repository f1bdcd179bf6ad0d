// torchrun's flags, as this program's launcher understands them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace ampctl::launch {

/// As typed; nothing where a flag was not given.
struct LaunchOptions {
  std::optional<std::string> nnodes;          ///< --nnodes N
  std::optional<std::string> nproc_per_node;  ///< --nproc-per-node auto|gpu|N
  std::optional<std::string> node_rank;
  std::optional<std::string> rdzv_endpoint;  ///< HOST or HOST:PORT of node 0
  std::optional<std::string> rdzv_id;
  std::optional<std::string> master_addr;
  std::optional<std::string> master_port;
  std::optional<std::string> max_restarts;
  std::optional<std::string> log_dir;
  std::optional<std::string> redirects;  ///< 0|1|2|3, or LOCAL_RANK:0|1|2|3 separated by commas
  std::optional<std::string> tee;
  bool standalone = false;

  /// A flag that was given, for messages; "" when there was none.
  [[nodiscard]] std::string first_given() const;
};

/// Some of a process's two output streams.
struct Streams {
  bool out = false;
  bool err = false;
};

/// The value of --tee or --redirects: streams by local rank.
class StreamChoice {
 public:
  StreamChoice() = default;
  /// Throws a usage error that names `flag`.
  StreamChoice(const std::string& flag, const std::string& value);

  /// Nothing where the flag says nothing about this rank.
  [[nodiscard]] std::optional<Streams> of(int64_t local_rank) const;
  [[nodiscard]] bool given() const { return all_ || !by_rank_.empty(); }

 private:
  std::optional<Streams> all_;
  std::map<int64_t, Streams> by_rank_;
};

/// How many processes of a node: a number, or what is there.
enum class PerNode {
  automatic,  ///< one a visible GPU, one process where the device is no GPU
  gpu,        ///< one a visible GPU
  number,
};

/// Checked options. One node and no port given: the store's port is the system's choice.
struct LaunchPlan {
  int64_t nodes = 1;
  int64_t node_rank = 0;
  PerNode per_node = PerNode::automatic;
  int64_t ranks_per_node = 0;  ///< for PerNode::number
  std::string master_addr = "127.0.0.1";
  std::optional<uint16_t> master_port;
  std::string run_id = "none";  ///< torchrun's word for no --rdzv-id
  int64_t max_restarts = 0;
  std::optional<std::string> log_dir;
  StreamChoice redirects;
  StreamChoice tee;
};

/// Checks one by one and against each other. Throws a usage error that says what contradicts what and what to
/// write instead.
[[nodiscard]] LaunchPlan checked(const LaunchOptions& options);

}  // namespace ampctl::launch
