#include "events/progress_bar.h"

#include <string>

#include "samples.h"
#include "support/catch.h"

namespace ampctl::events {
namespace {

StepFields fields_at(int64_t step) {
  StepTracker tracker([] { return 0.0; });
  tracker.start(test::sample_run());
  auto end = test::sample_step(step);
  end.max_allocated_gib = 10.99;
  return tracker.track(end);
}

TEST_CASE("with room enough the bar shows everything") {
  CHECK(bar_line(fields_at(225), 200) ==
        "epoch 5/10  [===============>              ]  step 225/450  50.0%  loss 0.5000  1.2k samples/s  "
        "data wait 0.3%  lr 0.1  scale 65536  skipped 2  memory 11.0 GiB  eta 23s");
}

TEST_CASE("the bar line never exceeds the terminal's width, and loses the least important first") {
  for (int width = 1; width <= 200; ++width) {
    INFO(width);
    CHECK(bar_line(fields_at(225), width).size() <= static_cast<size_t>(width));
  }
  const auto at_79 = bar_line(fields_at(225), 79);
  CHECK(at_79.find("loss 0.5000") != std::string::npos);
  CHECK(at_79.find("samples/s") != std::string::npos);
  CHECK(at_79.find('[') != std::string::npos);
  CHECK(at_79.find("memory") == std::string::npos);
}

TEST_CASE("the bar is empty at the beginning and full at the end") {
  StepFields fields;
  fields.epoch = "epoch 1";
  CHECK(bar_line(fields, 60) == "epoch 1  [>                             ]");
  fields.share = 1.0;
  CHECK(bar_line(fields, 60) == "epoch 1  [==============================]");
}

TEST_CASE("an activity inside the run has a bar of its own") {
  CHECK(activity_line("epoch 1/10", {"evaluating", 12, 40}, 60) ==
        "epoch 1/10  evaluating  [========>                  ]  12/40");
  CHECK(activity_line("", {"scanning", 12, 0}, 30) == "scanning  [>             ]  12");
}

}  // namespace
}  // namespace ampctl::events
