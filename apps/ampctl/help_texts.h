// What --help says beyond the options' own descriptions.
#pragma once

namespace ampctl::cli {

inline constexpr const char* kResumeValues = "auto|never|latest|best|PATH";
inline constexpr const char* kCheckpointValues = "latest|best|PATH";

inline constexpr const char* kFooter = R"(
Examples:
  ampctl train -c configs/quickstart.yaml
  ampctl train -c configs/mnist.yaml train.epochs=5 amp.dtype=bfloat16
  ampctl train -c configs/resnet50.yaml --nproc-per-node 4
  ampctl eval runs/quickstart --checkpoint best
  ampctl plan -c configs/resnet50.yaml
  ampctl bench -c configs/resnet50.yaml --synthetic
  ampctl config validate -c my.yaml
  ampctl env

Exit codes:
  0    done
  1    internal error
  2    usage or configuration
  3    environment: device, library, file system or data
  4    training diverged (non-finite values beyond the limits set)
  5    another rank or the process group failed
  75   stopped by a signal after a checkpoint: run the same command again
  128+N  ended by signal N without a checkpoint

Environment:
  AMPCTL_WORKER  path of ampctl-worker, when it is neither beside ampctl nor in ../libexec/ampctl
  CUDA_VISIBLE_DEVICES  the GPUs that may be used
  NO_COLOR       no colours
  Any variable can be read in an experiment file: ${VAR} or ${VAR:default}

'ampctl COMMAND --help' tells more about a command; '-' and '_' in flags' names mean the same.)";

inline constexpr const char* kTrainFooter = R"(
The experiment file's fields: 'ampctl config schema', docs/configuration.md. Later files win over earlier
ones, and overrides over files, in the order typed.

Examples:
  ampctl train -c configs/quickstart.yaml
  ampctl train -c base.yaml -c mine.yaml optimizer.lr=0.05 --seed 7 --output runs/seed7
  ampctl train -c configs/mnist.yaml --resume best
  ampctl train -c configs/resnet50.yaml --nproc-per-node 4 --max-restarts 3

One process a GPU: with distributed.world_size at auto every visible GPU of this machine gets one; with
--nnodes the same command runs on each machine. Under torchrun (torchrun --no-python ampctl train …), srun,
mpirun and Kubernetes' PyTorchJob it is the process of its rank, without these flags. Rank 0 writes to the
terminal; the others to attempt_K/RANK/stdout.log and stderr.log in the log folder, and what they write to
stderr is repeated behind [rankN].

Signals: SIGTERM, SIGINT and SIGUSR1 finish the step, save a checkpoint and exit with 75.
Exit codes: 0 done, 2 configuration, 3 environment, 4 diverged, 5 a process or the group failed, 75 stopped
after a checkpoint. Several processes: that of the one which failed first; 5 when a signal ended it.)";

inline constexpr const char* kLaunchFooter = R"(
'launch' and 'train' are the same command under two names, with the same options; 'ampctl train --help' says
more.

Examples:
  ampctl launch --nproc-per-node 4 -c configs/resnet50.yaml
  ampctl launch --nnodes 2 --node-rank 0 --rdzv-endpoint gpu1:29500 -c configs/resnet50.yaml
  ampctl launch --nnodes 2 --node-rank 1 --rdzv-endpoint gpu1:29500 -c configs/resnet50.yaml)";

inline constexpr const char* kEvalFooter = R"(
Examples:
  ampctl eval runs/quickstart
  ampctl eval runs/quickstart --checkpoint best --json
  ampctl eval -c configs/mnist.yaml device=cpu

One process evaluates, whatever distributed.world_size says.)";

inline constexpr const char* kBenchFooter = R"(
Any experiment file; evaluation, schedule and an epoch's shorter end are left out, nothing is written but what
--json asks for. Time is that of whole blocks of steps between two moments at which the device is idle. What
the figures mean: docs/performance.md.

Examples:
  ampctl bench -c configs/resnet50.yaml --synthetic data.batch_size=256
  ampctl bench -c configs/resnet50.yaml --synthetic --compare amp.dtype=float32,tf32,float16,bfloat16
  ampctl bench -c configs/mnist.yaml --compare data.batch_size=16,64 --compare amp.dtype=float32,float16
  ampctl bench -c configs/mnist.yaml --json bench.json

Each variant runs in new processes, several with distributed.world_size. One that fails is a row that says so,
and the exit code is then its own.)";

inline constexpr const char* kPlanFooter = R"(
Data sets are counted, nothing else is done.

Examples:
  ampctl plan -c configs/resnet50.yaml
  ampctl plan -c configs/resnet50.yaml --world-size 8)";

inline constexpr const char* kConfigFooter = R"(
Examples:
  ampctl config validate -c my.yaml
  ampctl config show -c my.yaml optimizer.lr=0.05 --comments
  ampctl config diff runs/a runs/b
  ampctl config schema > ampctl.schema.json)";

inline constexpr const char* kInspectFooter = R"(
Examples:
  ampctl inspect runs/quickstart
  ampctl inspect runs/quickstart/checkpoints/latest
  ampctl inspect model.safetensors --json)";

inline constexpr const char* kCompletionFooter = R"(
Examples:
  source <(ampctl completion bash)          # in ~/.bashrc
  source <(ampctl completion zsh)           # in ~/.zshrc, after compinit)";

}  // namespace ampctl::cli
