#include "launch/tail.h"

#include <array>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

#include "launch/console.h"
#include "launch/launcher_signals.h"
#include "support/catch.h"
#include "support/process.h"

using ampctl::FileDescriptor;
using ampctl::launch::LauncherSignals;
using ampctl::launch::Tails;
using ampctl::launch::write_now;
using ampctl::test::TempDir;

namespace {

class Pipe {
 public:
  Pipe() {
    std::array<int, 2> ends{};
    REQUIRE(pipe2(ends.data(), O_NONBLOCK) == 0);
    out_ = FileDescriptor(ends[0]);
    in_ = FileDescriptor(ends[1]);
  }
  [[nodiscard]] int in() const { return in_.get(); }
  void close_reader() { out_ = FileDescriptor(); }
  [[nodiscard]] std::string read_all() const {
    std::string all;
    std::array<char, 65536> buffer{};
    for (ssize_t count = 1; count > 0;) {
      count = read(out_.get(), buffer.data(), buffer.size());
      if (count > 0) all.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  FileDescriptor out_;
  FileDescriptor in_;
};

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

}  // namespace

TEST_CASE("New lines of each file are repeated behind its prefix, whole lines only") {
  const TempDir folder;
  const auto first = folder.path() / "1";
  const auto second = folder.path() / "2";
  append(first, "from an earlier run\n");
  append(second, "");
  const Pipe pipe;
  Tails tails;
  tails.add(first, "[rank1] ", pipe.in());
  tails.add(second, "[rank2] ", pipe.in());
  CHECK(tails.fd() >= 0);
  append(first, "one\n\ntw");
  CHECK(tails.pump());
  CHECK(pipe.read_all() == "[rank1] one\n[rank1] \n");
  append(second, "other\n");
  append(first, "o\n");
  CHECK(tails.pump());
  const std::string both = pipe.read_all();
  CHECK(both.find("[rank1] two\n") != std::string::npos);
  CHECK(both.find("[rank2] other\n") != std::string::npos);
  append(first, "last line");
  tails.finish();
  CHECK(pipe.read_all() == "[rank1] last line\n");
}

TEST_CASE("A target that nobody reads holds nothing up, and gets the lines later") {
  const TempDir folder;
  const auto path = folder.path() / "1";
  append(path, "");
  const Pipe pipe;
  Tails tails;
  tails.add(path, "", pipe.in());
  const std::string line(1023, 'x');
  std::string written;
  for (int i = 0; i < 300; ++i) written += line + "\n";
  append(path, written);
  CHECK_FALSE(tails.pump());
  std::string seen = pipe.read_all();
  CHECK(seen.size() < written.size());
  while (!tails.pump()) seen += pipe.read_all();
  seen += pipe.read_all();
  CHECK(seen == written);
}

TEST_CASE("A target without a reader and a removed file are no errors") {
  const LauncherSignals signals;
  const TempDir folder;
  const auto path = folder.path() / "1";
  append(path, "");
  Pipe pipe;
  Tails tails;
  tails.add(path, "", pipe.in());
  tails.add(folder.path() / "absent", "", pipe.in());
  append(path, "text\n");
  pipe.close_reader();
  CHECK(write_now(pipe.in(), "text") == 4);
  CHECK(tails.pump());
  std::filesystem::remove(path);
  CHECK(tails.pump());
  tails.finish();
}
