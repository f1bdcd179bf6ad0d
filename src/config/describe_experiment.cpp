#include "catalog/models.h"
#include "config/describe.h"

namespace ampctl::config {
namespace {

Rule for_models(Rule rule, const std::string& option, const ModelConfig& c) {
  return std::move(rule).option_of(catalog::models_taking(option), "name", c.name);
}

}  // namespace

void describe(Visitor& f, ExperimentConfig& c) {
  f("seed", c.seed, at_least(0), "Seed of everything random in the run.");
  f("device", c.device, one_of({"cuda", "cpu", "auto"}),
    "auto takes a GPU where there is one; cuda without one is an error.");
  f.section("model", c.model, "What is trained.");
  f.section("data", c.data, "What it is trained on.");
  f.section("train", c.train, "Length of the run and the step.");
  f.section("eval", c.eval, "When and how to evaluate.");
  f.section("optimizer", c.optimizer, "The update rule.");
  f.section("lr_schedule", c.lr_schedule, "The learning rate over time.");
  f.section("amp", c.amp, "Mixed precision.");
  f.section("distributed", c.distributed,
            "Processes that train together; backend and bucket_cap_mb matter from two processes on.");
  f.section("checkpoint", c.checkpoint, "Saving and resuming.");
  f.section("log", c.log, "What is reported.");
  f("output", c.output, any(), "The run's folder; a relative one starts at the working directory.");
}

void describe(Visitor& f, ModelConfig& c) {
  f("name", c.name, one_of(catalog::model_names()).required(), "Architecture.");
  f("num_classes", c.num_classes, at_least(1).at_most(1e6).absent("the data's"),
    "Outputs of the last layer.");
  f("channels_last", c.channels_last, any(), "Memory format NHWC, which tensor cores prefer.");
  f("fused", c.fused, any(),
    "Operators of our own where they apply (GPU, channels_last); false: PyTorch's alone.");
  f("hidden_sizes", c.hidden_sizes, for_models(at_least(1).at_most(1 << 20), "hidden_sizes", c),
    "Widths of the hidden layers.");
  f("dropout", c.dropout, for_models(at_least(0).below(1), "dropout", c),
    "Probability after each hidden layer.");
  f("zero_init_residual", c.zero_init_residual, for_models(any(), "zero_init_residual", c),
    "Starts each residual branch at zero.");
  f("weights", c.weights, any().absent("torchvision's initialisation"),
    "safetensors file with model weights to start from.");
}

void describe(Visitor& f, TrainConfig& c) {
  f("epochs", c.epochs, at_least(1).at_most(1e6).unit("epochs").absent("steps"),
    "Length of the run; or steps.");
  f("steps", c.steps, at_least(1).at_most(1e8).unit("steps").absent("epochs"),
    "Length of the run in optimizer steps; or epochs.");
  f("gradient_accumulation_steps", c.gradient_accumulation_steps,
    at_least(1).at_most(1e6).absent("from the batch sizes, else 1"), "Micro-batches of one optimizer step.");
  f("clip_grad_norm", c.clip_grad_norm, above(0).absent("no clipping"),
    "Largest norm of all gradients together, after unscaling.");
  f("clip_grad_value", c.clip_grad_value, above(0).absent("no clipping"),
    "Largest absolute value of a gradient's element, after unscaling.");
  f("label_smoothing", c.label_smoothing, at_least(0).at_most(1),
    "Share of the target spread over all classes.");
  f("deterministic", c.deterministic, any(),
    "The same bits in every run, where the device has such algorithms; slower.");
  f("cudnn_benchmark", c.cudnn_benchmark, any(), "Lets cuDNN time its algorithms on the first steps.");
  f("cuda_graph", c.cuda_graph, any(),
    "Replays the whole step as one CUDA graph where that is possible; where not, the run says why.");
  f("num_threads", c.num_threads, at_least(1).at_most(4096).unit("threads").absent("PyTorch's choice"),
    "CPU threads of one operator.");
  f("activation_checkpointing", c.activation_checkpointing, any(),
    "Name patterns (shell globs) of modules whose activations the backward pass computes again: less "
    "memory.");
}

void describe(Visitor& f, EvalConfig& c) {
  f("every_epochs", c.every_epochs, at_least(0).at_most(1e6).unit("epochs").absent("1, or every_steps"),
    "Evaluates after each so many epochs; 0 only at the end.");
  f("every_steps", c.every_steps, at_least(1).at_most(1e8).unit("steps").absent("every_epochs"),
    "Evaluates after each so many optimizer steps.");
  f("batch_size", c.batch_size, at_least(1).at_most(1e6).unit("samples").absent("data.batch_size"),
    "Batch of the evaluation.");
  f("best_metric", c.best_metric, one_of({"eval/top1", "eval/top5", "eval/loss"}),
    "Decides which checkpoint is the best.");
}

void describe(Visitor& f, DistributedConfig& c) {
  f("world_size", c.world_size, at_least(1).at_most(1e5).unit("processes").absent("auto").absent_word("auto"),
    "Processes, one a GPU; auto is what the launcher says, else one for each GPU of this host.");
  f("strategy", c.strategy, one_of({"ddp", "data_parallel"}),
    "ddp is one process a GPU; data_parallel is one process for all GPUs of this host, which is slower.");
  f("backend", c.backend, one_of({"auto", "nccl", "gloo"}), "auto is nccl on GPUs and gloo on CPUs.");
  f("timeout", c.timeout, above(0).at_most(86400).unit("seconds"),
    "A run in which no step ends for so long is given up, with the ranks named that are behind.");
  f("bucket_cap_mb", c.bucket_cap_mb, above(0).unit("MiB"), "Gradients are reduced in buckets of this size.");
  f("gradient_compression", c.gradient_compression, one_of({"none", "float16", "bfloat16"}),
    "The precision in which gradients travel between processes; none is float32.");
  f("gradient_as_bucket_view", c.gradient_as_bucket_view, any(),
    "Gradients live in the buckets that are reduced: less memory and less copying.");
  f("broadcast_buffers", c.broadcast_buffers, any(),
    "Every step begins with the buffers of rank 0 (batch norm's running statistics).");
  f("find_unused_parameters", c.find_unused_parameters, any(),
    "For models of which parts stay unused in a step; costs time.");
  f("sync_batch_norm", c.sync_batch_norm, any(),
    "Batch norm takes its statistics over the batches of all processes.");
}

void describe(Visitor& f, CheckpointConfig& c) {
  f("every_steps", c.every_steps, at_least(1).at_most(1e8).unit("steps").absent("every_epochs"),
    "Saves after each so many optimizer steps.");
  f("every_epochs", c.every_epochs, at_least(0).at_most(1e6).unit("epochs").absent("1, or every_steps"),
    "Saves after each so many epochs; 0 only at the end.");
  f("keep", c.keep, at_least(1).unit("checkpoints"), "Newest checkpoints that are kept.");
  f("keep_best", c.keep_best, any(), "Keeps the best one as well.");
  f("resume", c.resume, any(),
    "auto continues the run found in output, never refuses one; latest, best, or a checkpoint's folder.");
}

void describe(Visitor& f, LogConfig& c) {
  f("every_steps", c.every_steps, at_least(1).unit("steps"), "Steps from one log line to the next.");
  f("progress", c.progress, one_of({"auto", "bar", "plain", "none"}),
    "auto is a bar on a terminal, else plain lines.");
  f("level", c.level, one_of({"trace", "debug", "info", "warn", "error"}), "Least important message shown.");
  f("cuda_sync_debug", c.cuda_sync_debug, one_of({"off", "warn", "error"}),
    "PyTorch's sync debug mode between logging steps: what an unwanted wait for the device does.");
}

}  // namespace ampctl::config
