#include "launch/worker_process.h"

#include <array>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/process.h"

using ampctl::Error;
using ampctl::ErrorKind;
using ampctl::launch::find_worker;
using ampctl::launch::make_inherited_file;
using ampctl::test::TempDir;

namespace {

void make_program(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

}  // namespace

TEST_CASE("The worker is looked for in AMPCTL_WORKER, beside the program, then in libexec") {
  const TempDir prefix;
  const auto bin = prefix.path() / "bin";
  const auto libexec = prefix.path() / "libexec/ampctl/ampctl-worker";
  make_program(libexec);
  CHECK(find_worker({}, bin) == libexec);
  make_program(bin / "ampctl-worker");
  CHECK(find_worker({}, bin) == bin / "ampctl-worker");
  make_program(prefix.path() / "mine");
  CHECK(find_worker({{"AMPCTL_WORKER", (prefix.path() / "mine").string()}}, bin) == prefix.path() / "mine");
  CHECK(find_worker({{"AMPCTL_WORKER", ""}}, bin) == bin / "ampctl-worker");
}

TEST_CASE("A missing worker is an environment error that says where it was looked for and what to do") {
  const TempDir prefix;
  const auto bin = prefix.path() / "bin";
  try {
    static_cast<void>(find_worker({}, bin));
    FAIL("expected an error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::environment);
    CHECK_THAT(error.what(), ampctl::test::ContainsSubstring((bin / "ampctl-worker").string()) &&
                                 ampctl::test::ContainsSubstring("AMPCTL_WORKER"));
  }
  // Set, but wrong: nothing else may take its place.
  make_program(bin / "ampctl-worker");
  CHECK_THROWS_WITH(find_worker({{"AMPCTL_WORKER", "/nowhere/worker"}}, bin),
                    ampctl::test::ContainsSubstring("/nowhere/worker"));
}

TEST_CASE("An inherited file holds the text, from its beginning, and stays open over exec") {
  const std::string text(100000, 'x');
  const ampctl::FileDescriptor file(make_inherited_file("test", text));
  CHECK((fcntl(file.get(), F_GETFD) & FD_CLOEXEC) == 0);
  std::string found;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 1; count > 0;) {
    count = read(file.get(), buffer.data(), buffer.size());
    if (count > 0) found.append(buffer.data(), static_cast<std::size_t>(count));
  }
  CHECK(found == text);
}
