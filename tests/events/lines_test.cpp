#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "events/event_lines.h"
#include "samples.h"
#include "support/catch.h"

namespace ampctl::events {
namespace {

using test::sample_evaluation;
using test::sample_overflow;
using test::sample_run;
using test::sample_step;

struct Fixture {
  double now = 100.0;
  EventLines lines{Message::Level::info, [this] { return now; }};

  std::vector<std::string> texts(const Event& event) {
    std::vector<std::string> all;
    for (const auto& line : lines.lines(event)) all.push_back(line.text);
    return all;
  }
  std::string text(const Event& event) {
    const auto all = texts(event);
    REQUIRE(all.size() == 1);
    return all.front();
  }
};

TEST_CASE_METHOD(Fixture, "a run's start shows the plan, the device and the folder") {
  CHECK(texts(sample_run()) ==
        std::vector<std::string>{"plan: 450 steps\nlr: 0.1",
                                 "training on CPU, 2 threads, results in runs/digits"});
}

TEST_CASE_METHOD(Fixture, "a continued run says from where") {
  auto run = sample_run(90);
  run.resumed_from = "runs/digits/checkpoints/step-00000090";
  CHECK(texts(run)[1] == "resumed from runs/digits/checkpoints/step-00000090: 90 of 450 steps are done");
}

TEST_CASE_METHOD(Fixture, "a step line holds every figure that people look for") {
  texts(sample_run());
  auto step = sample_step(45, 0.4123);
  step.max_allocated_gib = 10.99;
  step.corrupt_samples = 3;
  // 405 steps left at 0.1 s each.
  CHECK(text(step) ==
        "epoch 1/10  step 45/450 (10.0%)  loss 0.4123  1.2k samples/s  data wait 0.3%  lr 0.1  scale 65536  "
        "skipped 2  memory 11.0 GiB  corrupt 3  eta 41s");
}

TEST_CASE_METHOD(Fixture, "the loss is an exponential mean over about fifty steps, started without bias") {
  texts(sample_run());
  CHECK(text(sample_step(50, 2.0)).find("loss 2.000 ") != std::string::npos);
  // Weights: the newer (1 - 1/e), the older (1 - 1/e)/e.
  const double older = (1 - std::exp(-1.0)) * std::exp(-1.0);
  const double newer = 1 - std::exp(-1.0);
  const double expected = (2.0 * older + 1.0 * newer) / (older + newer);
  CHECK(expected == Approx(1.2689).margin(1e-4));
  CHECK(text(sample_step(100, 1.0)).find("loss 1.269 ") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "an interval of skipped steps shows nan once and leaves the mean alone") {
  texts(sample_run());
  text(sample_step(50, 2.0));
  CHECK(text(sample_step(60, std::numeric_limits<double>::quiet_NaN())).find("loss nan ") !=
        std::string::npos);
  CHECK(text(sample_step(70, 2.0)).find("loss 2.000 ") != std::string::npos);
}

TEST_CASE_METHOD(Fixture,
                 "the time left follows the elapsed time, evaluations included, from the second line on") {
  texts(sample_run());
  text(sample_step(50));
  now += 100.0;  // 2 s a step
  CHECK(text(sample_step(100)).find("eta 11m40s") != std::string::npos);
  CHECK(text(sample_step(450)).find("eta") == std::string::npos);
}

TEST_CASE_METHOD(Fixture, "an evaluation is one line") {
  texts(sample_run());
  CHECK(text(sample_evaluation(45)) ==
        "eval  epoch 1/10  step 45  loss 0.3120  top1 91.23%  top5 99.10%  450 samples in 0.8s  best so far");
}

TEST_CASE_METHOD(Fixture, "the first skipped steps get a line each, later ones a count an interval") {
  texts(sample_run());
  double scale = 65536.0;
  CHECK(text(sample_overflow(1, scale)) ==
        "step 1 skipped: gradients not finite in conv1.weight, fc.bias and 60 more; scale 65536 -> 32768");
  for (int64_t step = 2; step <= 5; ++step) CHECK(texts(sample_overflow(step, scale /= 2)).size() == 1);
  for (int64_t step = 6; step <= 12; ++step) CHECK(texts(sample_overflow(step, scale /= 2)).empty());
  const auto lines_at_50 = texts(sample_step(50));
  REQUIRE(lines_at_50.size() == 2);
  CHECK(
      lines_at_50[0] ==
      "7 steps skipped since step 5; scale 2048 -> 16 (first not finite: conv1.weight, fc.bias and 60 more)");
  CHECK(texts(sample_step(100)).size() == 1);
  CHECK(texts(sample_overflow(120, 16.0)).empty());
  CHECK(texts(sample_step(150))[0].rfind("1 step skipped since step 100; scale 16 -> 8", 0) == 0);
}

TEST_CASE_METHOD(Fixture, "a flood of ten thousand skipped steps makes a handful of lines") {
  texts(sample_run());
  size_t count = 0;
  for (int64_t step = 1; step <= 10000; ++step) count += texts(sample_overflow(step, 1.0)).size();
  CHECK(count == 5);
  CHECK(texts(RunEnded{}).size() == 2);
}

TEST_CASE_METHOD(Fixture, "a skip without a scaler tells of no scale") {
  Overflow overflow = sample_overflow(7, 1.0);
  overflow.scale_after = 1.0;
  overflow.parameters.clear();
  CHECK(text(overflow) == "step 7 skipped: gradients not finite");
}

TEST_CASE_METHOD(Fixture, "a checkpoint says where, how long and whether it is the best") {
  CHECK(text(CheckpointSaved{45, "runs/digits/checkpoints/step-00000045", 0.12, true}) ==
        "saved runs/digits/checkpoints/step-00000045 in 0.1s  best so far");
}

TEST_CASE("messages below the level are left out") {
  EventLines lines(Message::Level::warning);
  CHECK(lines.lines(Message{Message::Level::info, "a"}).empty());
  CHECK(lines.lines(Message{Message::Level::warning, "b"}).front().kind == Line::Kind::warning);
  CHECK(lines.lines(Message{Message::Level::error, "c"}).front().kind == Line::Kind::error);
}

TEST_CASE_METHOD(Fixture, "a file's name cannot command the terminal") {
  CHECK(text(Message{Message::Level::warning, "corrupt file \x1b]0;owned\x07.jpg"}) ==
        "corrupt file ?]0;owned?.jpg");
}

TEST_CASE_METHOD(Fixture,
                 "the closing block of a finished run tells result, speed, skips, place and what to try") {
  texts(sample_run());
  texts(CheckpointSaved{450, "runs/digits/checkpoints/step-00000450", 0.1, true});
  RunEnded ended;
  ended.step = 450;
  ended.seconds = 63.0;
  ended.samples_per_sec = 1234.0;
  ended.max_allocated_gib = 10.99;
  ended.skipped_steps = 2;
  ended.best_top1 = 97.556;
  ended.final_top1 = 97.333;
  CHECK(text(ended) ==
        "Done: 450 of 450 steps in 1m03s\n"
        "  accuracy   best top1 97.56%, final top1 97.33%\n"
        "  speed      1.2k samples/s\n"
        "  memory     peak 11.0 GiB allocated\n"
        "  skipped    2 of 450 steps\n"
        "  results    runs/digits (metrics.jsonl, summary.csv, train.log, checkpoints/)\n"
        "  next       ampctl eval runs/digits --checkpoint best\n"
        "             ampctl inspect runs/digits");
}

TEST_CASE_METHOD(Fixture, "the closing block of a stopped or failed run tells why and how to go on") {
  texts(sample_run());
  RunEnded ended;
  ended.outcome = RunEnded::Outcome::preempted;
  ended.step = 90;
  ended.seconds = 9.0;
  ended.message = "received SIGTERM";
  CHECK(text(ended) ==
        "Stopped after 90 of 450 steps, 9.0s into this run: received SIGTERM\n"
        "  skipped    0 of 90 steps\n"
        "  results    runs/digits (metrics.jsonl, summary.csv, train.log)\n"
        "  next       run the same command again: it continues from the last checkpoint");
  ended.outcome = RunEnded::Outcome::failed;
  ended.message = "out of memory";
  CHECK(text(ended).find("next") == std::string::npos);
  texts(CheckpointSaved{90, "p", 0.1, false});
  CHECK(text(ended).rfind("Failed after 90 of 450 steps, 9.0s into this run: out of memory\n", 0) == 0);
  CHECK(text(ended).find("the same command continues from the last checkpoint") != std::string::npos);
}

}  // namespace
}  // namespace ampctl::events
