#include "data/decode_pool.h"

#include <csignal>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/loader.h"
#include "data/toy_dataset.h"
#include "support/catch.h"
#include "support/process.h"

namespace fs = std::filesystem;
using namespace ampctl;
using Clock = std::chrono::steady_clock;

namespace {

/// One class folder with a FIFO that nobody writes to: reading it never returns.
data::DatasetPtr stalled_folder(const fs::path& root) {
  fs::create_directory(root / "only");
  REQUIRE(mkfifo((root / "only" / "0.jpg").c_str(), 0600) == 0);
  config::DataConfig config;
  config.train.format = "image_folder";
  config.train.path = root.string();
  return data::open_datasets(config, 1).train;
}

/// Lets the reader of the FIFO go on, with nothing to read.
void unblock(const fs::path& fifo) {
  const int fd = open(fifo.c_str(), O_WRONLY | O_NONBLOCK);
  if (fd >= 0) close(fd);
}

int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmRSS:", 0) == 0) return std::stoll(line.substr(6));
  }
  return 0;
}

int threads_now() {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("A stop request ends the wait for a stalled read, and the stuck thread does no harm later") {
  for (const int64_t workers : {0, 2}) {
    const test::TempDir dir;
    const int threads_before = threads_now();
    std::atomic<bool> stop{false};
    data::LoaderOptions options;
    options.num_workers = workers;
    options.shuffle = false;
    {
      data::Loader loader(stalled_folder(dir.path()), {}, options, &stop);
      loader.begin_epoch(0, 0);
      std::thread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        stop = true;
      });
      const auto start = Clock::now();
      CHECK_FALSE(loader.next());
      const auto took = Clock::now() - start;
      stopper.join();
      CHECK(took >= std::chrono::milliseconds(200));
      CHECK(took < std::chrono::milliseconds(350));
      CHECK(loader.stopped());
      CHECK_FALSE(loader.next());
    }
    CHECK(threads_now() == threads_before + 1);
    unblock(dir.path() / "only" / "0.jpg");
    for (int i = 0; i < 200 && threads_now() > threads_before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    CHECK(threads_now() == threads_before);
  }
}

TEST_CASE("The queue is bounded: a slow consumer does not make memory grow") {
  config::DataConfig config;
  config.train.format = "synthetic";
  config.train.num_samples = 4000;
  config.train.image_size = 100;
  data::LoaderOptions options;
  options.batch_size = 20;
  options.num_workers = 2;
  options.prefetch_factor = 2;
  const data::DatasetPtr dataset = data::open_datasets(config, 1).train;
  {
    // What is allocated once a process shall not count.
    data::Loader first(dataset, {}, options, nullptr);
    first.begin_epoch(0, 0);
    REQUIRE(first.next());
  }
  const int64_t before = resident_kib();
  data::Loader loader(dataset, {}, options, nullptr);
  loader.begin_epoch(0, 0);
  REQUIRE(loader.next());
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  // All 4,000 images are 120 MB; four batches of 20 and one in floats are 5 MB.
  CHECK(resident_kib() - before < 16 * 1024);
  int64_t batches = 1;
  while (loader.next()) ++batches;
  CHECK(batches == 200);
}

TEST_CASE("Decoding threads leave signals to the program's own thread") {
  const auto toy = std::make_shared<test::ToyDataset>(4);
  const data::DecodePool pool(toy, data::Transforms({}), {2, 1, false, false});
  int blocked = 0;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("SigBlk:", 0) != 0) continue;
      const auto mask = std::stoull(line.substr(7), nullptr, 16);
      blocked += static_cast<int>(mask >> (SIGTERM - 1) & 1U);
    }
  }
  CHECK(blocked == 2);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  CHECK(sigismember(&own, SIGTERM) == 0);
}
