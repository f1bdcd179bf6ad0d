#include <string>

#include "support/catch.h"
#include "support/process.h"
#include "texts.h"

namespace config = ampctl::config;
namespace test = ampctl::test;
using config::load;
using test::message_of;
using test::minimal;
using test::write_file;

TEST_CASE("the command line wins over later files over earlier files over defaults") {
  const test::TempDir dir;
  const auto first =
      write_file(dir.path() / "a.yaml", minimal() + "seed: 1\noptimizer: {lr: 1, momentum: 0.5}\n");
  const auto second = write_file(dir.path() / "b.yaml", "seed: 2\noptimizer: {lr: 2}\n");
  const auto config = load({{first, second}, {"seed=3", "amp.scaler.init_scale=1e3"}});
  CHECK(config.seed == 3);
  CHECK(config.optimizer.lr == 2);
  CHECK(config.optimizer.momentum == 0.5);
  CHECK(config.amp.scaler.init_scale == 1000);
  CHECK(config.amp.scaler.growth_factor == 2);
  CHECK(load({{second, first}, {}}).seed == 1);
}

TEST_CASE("a file extends others relative to itself and wins over them; a later one of a list wins") {
  const test::TempDir dir;
  write_file(dir.path() / "base" / "one.yaml", minimal() + "seed: 1\noutput: one\nlog: {every_steps: 1}\n");
  write_file(dir.path() / "base" / "two.yaml", "extends: one.yaml\nseed: 2\nlog: {every_steps: 2}\n");
  write_file(dir.path() / "three.yaml", "log: {every_steps: 3}\n");
  const auto top = write_file(dir.path() / "top.yaml", "extends: [base/two.yaml, three.yaml]\noutput: top\n");
  const auto config = load({{top}, {}});
  CHECK(config.seed == 2);
  CHECK(config.output == "top");
  CHECK(config.log.every_steps == 3);
}

TEST_CASE("a mistake in an extended file is told with that file's place") {
  const test::TempDir dir;
  const auto base = write_file(dir.path() / "base.yaml", minimal() + "seed: x\n");
  const auto top = write_file(dir.path() / "top.yaml", "extends: base.yaml\nlog: {level: loud}\n");
  CHECK(message_of(config::LoadRequest{{top}, {}}) ==
        "2 problems in the configuration:\n" + base + ":6:7: seed: expected an integer >= 0, found 'x'\n" +
            top + ":2:14: log.level: expected one of trace, debug, info, warn or error, found 'loud'");
}

TEST_CASE(
    "files that extend each other, are missing or are no files are refused with the way they were named") {
  const test::TempDir dir;
  const std::string a = write_file(dir.path() / "a.yaml", "extends: b.yaml\n");
  const std::string b = write_file(dir.path() / "b.yaml", "extends: [a.yaml]\n");
  CHECK(message_of(config::LoadRequest{{a}, {}}) ==
        b + ":1:11: extends: '" + a + "' extends itself, directly or through others");
  const std::string c = write_file(dir.path() / "c.yaml", "seed: 1\nextends: none.yaml\n");
  CHECK(message_of(config::LoadRequest{{c}, {}}) == c + ":2:10: extends: expected a readable file, found '" +
                                                        (dir.path() / "none.yaml").string() +
                                                        "': No such file or directory");
  const std::string d = write_file(dir.path() / "d.yaml", "extends: {a: b}\n");
  CHECK(message_of(config::LoadRequest{{d}, {}})
            .find(d + ":1:10: extends: expected a file or a list of files, found a map") !=
        std::string::npos);
  CHECK(message_of(config::LoadRequest{{"nowhere.yaml"}, {}}) ==
        "nowhere.yaml: expected a readable configuration file: No such file or directory");
  CHECK(message_of(config::LoadRequest{{dir.path().string()}, {}}) ==
        dir.path().string() + ": expected a readable configuration file: a folder");
}

TEST_CASE("an override is checked like a file and told as it was written") {
  const test::TempDir dir;
  const auto file = write_file(dir.path() / "a.yaml", minimal());
  const auto with = [&](const std::string& text) { return message_of(config::LoadRequest{{file}, {text}}); };
  CHECK(with("optimizer.lr=quick") ==
        "--set optimizer.lr=quick: optimizer.lr: expected a number >= 0, found 'quick'");
  CHECK(with("optimizer.lrr=1") ==
        "--set optimizer.lrr=1: optimizer.lrr: unknown key (did you mean 'optimizer.lr'?)");
  CHECK(with("optimizer=1") == "--set optimizer=1: optimizer: expected a map of settings, found '1'");
  CHECK(with("seed.x=1") == "--set seed.x=1: seed: expected an integer >= 0, found a map");
  CHECK(with("seed") == "--set seed: expected dotted.key=value (such as optimizer.lr=0.01)");
  CHECK(with("=1") == "--set =1: expected dotted.key=value (such as optimizer.lr=0.01)");
  CHECK(with("a..b=1") == "--set a..b=1: expected dotted.key=value (such as optimizer.lr=0.01)");
  CHECK(with("seed=[1") ==
        "--set seed=[1: expected text as a key, found a list or a map; is a bracket left open?");
  CHECK(with("seed={a: 1").starts_with("--set seed={a: 1: expected "));
  CHECK(with("seed=") == "--set seed=: seed: expected an integer >= 0, found null");
}

TEST_CASE("an override takes lists, maps, null and text as it stands") {
  const test::TempDir dir;
  const auto file =
      write_file(dir.path() / "a.yaml", minimal() + "optimizer: {lr: 0.5, weight_decay: 0.1}\n");
  const auto config = load({{file},
                            {"amp.fp32_modules=[head, 'layer4.*']", "optimizer={lr: 0.25}",
                             "train.clip_grad_norm=null", "output=a=b/${HOME}"}});
  CHECK(config.amp.fp32_modules == std::vector<std::string>{"head", "layer4.*"});
  CHECK(config.optimizer.lr == 0.25);
  CHECK(config.optimizer.weight_decay == 0.1);
  CHECK(config.output == "a=b/${HOME}");
}

TEST_CASE("another choice in a later source takes the options of the earlier one away") {
  const test::TempDir dir;
  const auto file =
      write_file(dir.path() / "a.yaml", minimal() + "optimizer: {name: sgd, lr: 0.5, momentum: 0.8}\n");
  const auto config = load({{file}, {"optimizer.name=adamw"}});
  CHECK(config.optimizer.name == "adamw");
  CHECK(config.optimizer.lr == 0.5);
  CHECK(config.optimizer.momentum == 0.9);
  CHECK(message_of(config::LoadRequest{{file}, {"optimizer.name=adamw", "optimizer.momentum=0.7"}}) ==
        "--set optimizer.momentum=0.7: optimizer.momentum: an option of sgd, and optimizer.name is 'adamw'");
}

TEST_CASE("of two settings that exclude each other the later source's stays") {
  const test::TempDir dir;
  const auto file =
      write_file(dir.path() / "a.yaml", minimal() + "lr_schedule: {name: cosine, warmup_epochs: 1}\n");
  const auto config = load({{file}, {"train.steps=10", "lr_schedule.warmup_steps=2"}});
  CHECK_FALSE(config.train.epochs.has_value());
  CHECK(config.train.steps == 10);
  CHECK_FALSE(config.lr_schedule.warmup_epochs.has_value());
  CHECK(config.lr_schedule.warmup_steps == 2);
}

TEST_CASE("anchors, aliases and merge keys are written out; the map's own keys win") {
  const auto config = config::load_text(
      "model: {name: mlp}\ntrain: {epochs: 1}\n"
      "data:\n  batch_size: 4\n"
      "  train: &source {format: synthetic, num_samples: 100, channels: 1}\n"
      "  eval:\n    <<: *source\n    num_samples: 20\n",
      "e.yaml");
  CHECK(config.data.eval->format == "synthetic");
  CHECK(config.data.eval->num_samples == 20);
  CHECK(config.data.eval->channels == 1);
  CHECK(message_of("model: {<<: 5}\n").find("<<: expected a map, found '5'") != std::string::npos);
}
