#include <algorithm>

#include "config/describe.h"

namespace ampctl::config {
namespace {

Rule for_formats(Rule rule, std::vector<std::string> formats, const DatasetConfig& c) {
  return std::move(rule).option_of(std::move(formats), "format", c.format);
}

Rule for_transforms(Rule rule, std::vector<std::string> names, const TransformConfig& c) {
  return std::move(rule).option_of(std::move(names), "name", c.name);
}

}  // namespace

void describe(Visitor& f, DataConfig& c) {
  f("batch_size", c.batch_size, at_least(1).at_most(1e6).unit("samples").absent("from global_batch_size"),
    "Micro-batch: samples a process reads for one forward pass.");
  f("global_batch_size", c.global_batch_size,
    at_least(1).at_most(1e9).unit("samples").absent("batch_size x accumulation x processes"),
    "Samples of one optimizer step.");
  f("num_workers", c.num_workers, at_least(0).at_most(1024).unit("threads"),
    "Threads that decode and transform; 0 does it in the training thread.");
  f("prefetch_factor", c.prefetch_factor, at_least(1).at_most(1024).unit("batches"),
    "Batches ahead, a worker.");
  f("pin_memory", c.pin_memory, any(), "Page-locked host memory for batches on their way to a GPU.");
  f("shuffle", c.shuffle, any(), "Draws a new order of the training samples each epoch, from the seed.");
  f("drop_last", c.drop_last, any(),
    "Leaves out the last, shorter batch of an epoch instead of training on it.");
  f("on_corrupt", c.on_corrupt, one_of({"error", "skip"}),
    "What a damaged file does: end the run, or be left out and counted.");
  f("max_corrupt", c.max_corrupt, at_least(0).unit("files"),
    "With on_corrupt: skip, more damaged files than this end the run.");
  f.section("train", c.train, "The training data.");
  f.section("eval", c.eval, "The evaluation data; with split.eval_fraction, only its transforms.");
  f.section("split", c.split, "Divides one source, data.train, into a training and an evaluation part.");
}

void describe(Visitor& f, DatasetConfig& c) {
  f("format", c.format, one_of({"idx", "image_folder", "synthetic"}),
    "MNIST's IDX files, a folder of images a class, or made-up images.");
  f("path", c.path, for_formats(any().absent("not used"), {"idx", "image_folder"}, c),
    "Folder; a relative one starts at the working directory.");
  f("images", c.images, for_formats(any().absent("found in path"), {"idx"}, c),
    "File of images, plain or gzip.");
  f("labels", c.labels, for_formats(any().absent("found in path"), {"idx"}, c),
    "File of labels, plain or gzip.");
  f("transforms", c.transforms, any(), "What is done to each image, in this order.");
  f("num_samples", c.num_samples, for_formats(at_least(1).at_most(1e9).unit("samples"), {"synthetic"}, c),
    "Number of samples.");
  f("image_size", c.image_size, for_formats(at_least(1).at_most(16384).unit("pixels"), {"synthetic"}, c),
    "Height and width.");
  f("channels", c.channels, for_formats(at_least(1).at_most(4), {"synthetic"}, c), "Channels of an image.");
  f("num_classes", c.num_classes, for_formats(at_least(1).at_most(1e6), {"synthetic"}, c),
    "Number of classes.");
}

void describe(Visitor& f, SplitConfig& c) {
  f("eval_fraction", c.eval_fraction, above(0).below(1).absent("no split"),
    "Share of the samples kept for evaluation.");
  f("seed", c.seed, at_least(0),
    "Seed of the split; apart from the run's, so that all runs share one split.");
  f("stratified", c.stratified, any(), "Takes the same share of every class.");
}

void describe(Visitor& f, TransformConfig& c) {
  f("size", c.size,
    for_transforms(at_least(1).at_most(16384).unit("pixels").required(),
                   {"resize", "center_crop", "random_crop", "random_resized_crop"}, c),
    "Height and width; of resize, the shorter side.");
  f("padding", c.padding, for_transforms(at_least(0).at_most(16384).unit("pixels"), {"random_crop"}, c),
    "Black border added on each side first.");
  f("p", c.p, for_transforms(at_least(0).at_most(1), {"horizontal_flip"}, c), "Probability.");
  f("scale", c.scale, for_transforms(above(0).at_most(1), {"random_resized_crop"}, c),
    "Smallest and largest share of the image's area.");
  f("ratio", c.ratio, for_transforms(above(0), {"random_resized_crop"}, c),
    "Smallest and largest width / height.");
  f("mean", c.mean, for_transforms(any().required(), {"normalize"}, c),
    "Subtracted from values in [0, 1]; a list of one number, or of one a channel.");
  f("std", c.std, for_transforms(above(0).required(), {"normalize"}, c),
    "Divides them then; a list of one number, or of one a channel.");
}

const std::vector<TransformKind>& transform_kinds() {
  static const std::vector<TransformKind> kinds{
      {"resize", "size", false, "Scales the shorter side to size, bilinear with antialiasing."},
      {"center_crop", "size", false, "Cuts out the middle; a smaller image gets a black border."},
      {"random_crop", "size", true, "Cuts out a random place, after padding."},
      {"random_resized_crop", "size", true, "Cuts out a random part and scales it to size."},
      {"horizontal_flip", "p", true, "Mirrors left and right with probability p."},
      {"normalize", "", false, "Subtracts mean and divides by std; the last of a list."},
  };
  return kinds;
}

const TransformKind* find_transform(const std::string& name) {
  const auto& kinds = transform_kinds();
  const auto found = std::ranges::find(kinds, name, &TransformKind::name);
  return found == kinds.end() ? nullptr : &*found;
}

}  // namespace ampctl::config
