#include <string>
#include <vector>

#include "support/catch.h"
#include "texts.h"

using ampctl::test::message_of;
using ampctl::test::minimal;

namespace {

struct Case {
  std::string lines;  // after the five of minimal()
  std::string message;
};

}  // namespace

TEST_CASE("each mistake in a value is told with line, column, key, what was expected and what was found") {
  const std::vector<Case> cases{
      {"optimizer: {lr: fast}\n", "e.yaml:6:17: optimizer.lr: expected a number >= 0, found 'fast'"},
      {"optimizer: {lr: -0.1}\n", "e.yaml:6:17: optimizer.lr: expected a number >= 0, found '-0.1'"},
      {"optimizer: {lr: nan}\n", "e.yaml:6:17: optimizer.lr: expected a number >= 0, found 'nan'"},
      {"optimizer: {lr: [0.1]}\n", "e.yaml:6:17: optimizer.lr: expected a number >= 0, found a list"},
      {"optimizer: {lr: null}\n", "e.yaml:6:17: optimizer.lr: expected a number >= 0, found null"},
      {"optimizer: {lr: \"0.1\"}\n",
       "e.yaml:6:17: optimizer.lr: expected a number >= 0, found the text '0.1'; leave the quotes out"},
      {"seed: 1.5\n", "e.yaml:6:7: seed: expected an integer >= 0, found '1.5'"},
      {"seed: 1_000\n", "e.yaml:6:7: seed: expected an integer >= 0, found '1_000'; write 1000"},
      {"amp:\n  scaler:\n    backoff_factor: 1\n",
       "e.yaml:8:21: amp.scaler.backoff_factor: expected a number > 0 and < 1, found '1'"},
      {"amp: {enabled: 1}\n", "e.yaml:6:16: amp.enabled: expected true or false, found '1'"},
      {"amp: {dtype: floot16}\n",
       "e.yaml:6:14: amp.dtype: expected one of float32, tf32, float16 or bfloat16, found 'floot16' (did you "
       "mean 'float16'?)"},
      {"amp: {scaler: {enabled: maybe}}\n",
       "e.yaml:6:25: amp.scaler.enabled: expected one of auto, true or false, found 'maybe'"},
      {"amp: {scaler: 5}\n", "e.yaml:6:7: amp.scaler: expected a map of settings, found '5'"},
      {"optimizer: adam\n", "e.yaml:6:1: optimizer: expected a map of settings, found 'adam'"},
      {"log:\n",
       "e.yaml:6:1: log: expected a map of settings, found null; leave the section out to keep its defaults"},
      {"optimizer: {name: adam, betas: [0.9]}\n",
       "e.yaml:6:32: optimizer.betas: expected a list of two numbers >= 0 and < 1, found a list of 1"},
      {"optimizer: {name: adam, betas: [0.9, 1.5]}\n",
       "e.yaml:6:38: optimizer.betas: expected a number >= 0 and < 1, found '1.5'"},
      {"amp: {fp32_modules: head}\n", "e.yaml:6:21: amp.fp32_modules: expected a list, found 'head'"},
      {"output: [a]\n", "e.yaml:6:9: output: expected text, found a list"},
      {"distributed: {world_size: many}\n",
       "e.yaml:6:27: distributed.world_size: expected an integer >= 1 and <= 100000, found 'many'"},
  };
  for (const auto& test : cases) CHECK(message_of(minimal() + test.lines) == test.message);
}

TEST_CASE("an unknown key is told with its place and the key that was probably meant") {
  const std::vector<Case> cases{
      {"optimizer: {momentom: 0.9}\n",
       "e.yaml:6:13: optimizer.momentom: unknown key (did you mean 'optimizer.momentum'?)"},
      {"amp: {scaler: {growth-interval: 5}}\n",
       "e.yaml:6:16: amp.scaler.growth-interval: unknown key (did you mean 'amp.scaler.growth_interval'?)"},
      {"optimiser: {lr: 1}\n", "e.yaml:6:1: optimiser: unknown key (did you mean 'optimizer'?)"},
      {"amp: {growth_interval: 5}\n",
       "e.yaml:6:7: amp.growth_interval: unknown key (did you mean 'amp.scaler.growth_interval'?)"},
      {"log: {zzz: 5}\n",
       "e.yaml:6:7: log.zzz: unknown key (expected one of every_steps, progress, level or cuda_sync_debug)"},
  };
  for (const auto& test : cases) CHECK(message_of(minimal() + test.lines) == test.message);
}

TEST_CASE("five mistakes are told at once, in the order of the file") {
  const std::string text =
      "model: {name: resnet51}\n"
      "data:\n"
      "  batch_size: four\n"
      "  train: {format: synthetic}\n"
      "train: {epochs: 0, label_smooting: 0.1}\n"
      "lr_schedule: {name: cosin}\n";
  CHECK(message_of(text) ==
        "5 problems in the configuration:\n"
        "e.yaml:1:15: model.name: expected one of mlp, lenet, resnet18, resnet34, resnet50, resnet101 or "
        "resnet152, found 'resnet51' (did you mean 'resnet50'?)\n"
        "e.yaml:3:15: data.batch_size: expected an integer >= 1 and <= 1000000, found 'four'\n"
        "e.yaml:5:17: train.epochs: expected an integer >= 1 and <= 1000000, found '0'\n"
        "e.yaml:5:20: train.label_smooting: unknown key (did you mean 'train.label_smoothing'?)\n"
        "e.yaml:6:21: lr_schedule.name: expected one of constant, step, multi_step, exponential, polynomial "
        "or cosine, found 'cosin' (did you mean 'cosine'?)");
}

TEST_CASE("what is missing is told at the section that lacks it") {
  CHECK(message_of("data:\n  batch_size: 4\n  train: {format: synthetic}\ntrain: {epochs: 1}\n") ==
        "e.yaml: model.name: expected a value, found none");
  CHECK(message_of(
            "model: {dropout: 0}\ndata:\n  batch_size: 4\n  train: {format: synthetic}\ntrain: {epochs: 1}\n")
            .starts_with(
                "2 problems in the configuration:\ne.yaml:1:1: model.name: expected a value, found none"));
  CHECK(
      message_of("model: mlp\ndata:\n  batch_size: 4\n  train: {format: synthetic}\ntrain: {epochs: 1}\n") ==
      "e.yaml:1:1: model: expected a map of settings, found 'mlp'");
}

TEST_CASE("broken YAML is told with its place and nothing is said to be missing") {
  CHECK(message_of("model: {name: mlp\ndata: 1\n").starts_with("e.yaml:2:"));
  CHECK(message_of("model: {name: mlp\ndata: 1\n").find("expected valid YAML") != std::string::npos);
  const std::string tabbed = message_of("model: {name: mlp}\ndata:\n\tbatch_size: 4\n");
  CHECK(tabbed.starts_with("e.yaml:3:"));
  CHECK(tabbed.ends_with("; line 3 is indented with a tab, where YAML wants spaces"));
  CHECK(message_of("- a\n- b\n") == "e.yaml:1:1: expected a map of settings, found a list");
  CHECK(message_of(minimal() + "seed: 1\nseed: 2\n") ==
        "e.yaml:7:1: seed: this key is given twice, first at line 6");
  CHECK(message_of(minimal() + "---\nseed: 1\n") ==
        "e.yaml:6:1: expected one YAML document, found a second one");
  CHECK(message_of(minimal() + "seed: !python/object 1\n").find("YAML tag") != std::string::npos);
  CHECK(message_of(minimal() + "? [a, b]\n: 1\n").find("expected text as a key, found a list or a map") !=
        std::string::npos);
}

TEST_CASE("mistakes inside transforms name the entry and the option") {
  const std::string head =
      "model: {name: mlp}\ntrain: {epochs: 1}\ndata:\n  batch_size: 4\n  train:\n    format: synthetic\n"
      "    transforms:\n";
  const std::string at = "data.train.transforms[0]";
  CHECK(message_of(head + "      - center_crp: 8\n") ==
        "e.yaml:8:9: " + at +
            ": expected one of resize, center_crop, random_crop, random_resized_crop, horizontal_flip or "
            "normalize, found 'center_crp' (did you mean 'center_crop'?)");
  CHECK(message_of(head + "      - center_crop\n") ==
        "e.yaml:8:9: " + at + ".size: expected a value, found none");
  CHECK(message_of(head + "      - center_crop: wide\n") ==
        "e.yaml:8:22: " + at + ".size: expected an integer >= 1 and <= 16384, found 'wide'");
  CHECK(message_of(head + "      - random_crop: {size: 8, pading: 2}\n") ==
        "e.yaml:8:32: " + at + ".pading: unknown key (did you mean '" + at + ".padding'?)");
  CHECK(message_of(head + "      - resize: {size: 8, padding: 2}\n") ==
        "e.yaml:8:27: " + at + ".padding: an option of random_crop, and " + at + ".name is 'resize'");
  CHECK(message_of(head + "      - normalize: 3\n") ==
        "e.yaml:8:20: " + at + ": expected `normalize: {option: value}`, found '3'");
  CHECK(message_of(head + "      - normalize: {mean: [0.5, 0.5], std: [0.5]}\n") ==
        "e.yaml:8:44: " + at + ".std: expected as many numbers as in mean, at least one; found 1 and 2");
  CHECK(message_of(head + "      - normalize: {mean: [0.5], std: [0]}\n") ==
        "e.yaml:8:40: " + at + ".std: expected a number > 0, found '0'");
  CHECK(message_of(head + "      - normalize: {mean: [0], std: [1]}\n      - horizontal_flip\n") ==
        "e.yaml:8:20: " + at + ": expected normalize as the last transform, found horizontal_flip after it");
  CHECK(message_of(head + "      - {resize: 8, center_crop: 8}\n") ==
        "e.yaml:8:9: " + at +
            ": expected a name, `name: value` or `name: {option: value}`, found a map of 2 entries");
  CHECK(message_of(head + "      - random_resized_crop: {size: 8, scale: [0.9, 0.1]}\n") ==
        "e.yaml:8:47: " + at + ".scale: expected the smaller bound first, found [0.9, 0.1]");
}
