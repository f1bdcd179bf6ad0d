#include "catalog/image_folder.h"

#include <sstream>

#include <unistd.h>

#include "base/error.h"
#include "catalog/idx_files.h"
#include "support/catch.h"
#include "support/matchers.h"
#include "support/process.h"
#include "support/skip.h"

namespace fs = std::filesystem;
using namespace ampctl;
using test::ContainsSubstring;

namespace {

void touch(const fs::path& path) {
  fs::create_directories(path.parent_path());
  test::write_file(path, "");
}

/// What torchvision.datasets.ImageFolder lists, as this program would say it.
catalog::ImageFolder torchvision_listing(const fs::path& root) {
  const auto script = test::source_dir() / "tests" / "reference" / "data_listing.py";
  const auto result = test::run({test::python(), script.string(), "folder", root.string()});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  catalog::ImageFolder folder;
  std::istringstream lines(result.out);
  std::string line;
  std::getline(lines, line);
  std::istringstream classes(line);
  for (std::string name; classes >> name;) folder.classes.push_back(name);
  while (std::getline(lines, line)) {
    folder.targets.push_back(std::stoll(line));
    folder.files.push_back(line.substr(line.find(' ') + 1));
  }
  return folder;
}

}  // namespace

TEST_CASE("An image folder is listed in torchvision's order") {
  if (!test::python_has({"torchvision"})) return test::skip("Python has no torchvision");
  const test::TempDir dir;
  for (const char* name :
       {"b/2.jpg", "b/10.jpg", "b/1.JPEG", "b/notes.txt", "a/z.png", "a/sub/1.jpg", "a/sub-2/1.Jpg",
        "a/A.jpg", "a/sub/deeper/0.png", "Zebra/x.y.jpg", "_0/.jpg.jpg", "\xC3\xA9t\xC3\xA9/1.jpg"}) {
    touch(dir.path() / name);
  }
  touch(dir.path() / "not-in-a-class.jpg");
  fs::create_directory_symlink(dir.path() / "b", dir.path() / "linked");
  const catalog::ImageFolder expected = torchvision_listing(dir.path());
  const catalog::ImageFolder found = catalog::scan_image_folder(dir.path());
  CHECK(found.classes == expected.classes);
  CHECK(found.files == expected.files);
  CHECK(found.targets == expected.targets);
  CHECK(found.files.size() == 14);

  const fs::path data = test::shared_data_dir();
  if (data.empty()) return test::skip("no folder with shared test data");
  const catalog::ImageFolder cifar = catalog::scan_image_folder(data / "cifar10-sample" / "test");
  const catalog::ImageFolder cifar_expected = torchvision_listing(data / "cifar10-sample" / "test");
  CHECK(cifar.classes == cifar_expected.classes);
  CHECK(cifar.files == cifar_expected.files);
  CHECK(cifar.targets == cifar_expected.targets);
  CHECK(cifar.files.size() == 1000);
}

TEST_CASE("An image folder that cannot be trained on is refused in one line") {
  const test::TempDir dir;
  const auto failure = [](const fs::path& root) -> std::string {
    try {
      catalog::scan_image_folder(root);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::environment);
      std::string message = error.what();
      CHECK(message.find('\n') == std::string::npos);
      return message;
    }
    return "no error";
  };
  CHECK_THAT(failure(dir.path() / "absent"),
             ContainsSubstring("absent") && ContainsSubstring("does not exist"));
  touch(dir.path() / "file");
  CHECK_THAT(failure(dir.path() / "file"), ContainsSubstring("not a folder"));
  CHECK_THAT(failure(dir.path()), ContainsSubstring("found no folder in it"));
  touch(dir.path() / "cat" / "1.jpg");
  touch(dir.path() / "dog" / "readme.txt");
  CHECK_THAT(failure(dir.path()), ContainsSubstring("no image") && ContainsSubstring("class dog"));
  touch(dir.path() / "dog" / "1.webp");
  CHECK_THAT(failure(dir.path()), ContainsSubstring("1.webp") && ContainsSubstring("convert or remove"));
  fs::remove(dir.path() / "dog" / "1.webp");
  touch(dir.path() / "dog" / "1.png");
  CHECK(failure(dir.path()) == "no error");
  fs::create_directory_symlink(dir.path() / "dog", dir.path() / "dog" / "again");
  CHECK_THAT(failure(dir.path()), ContainsSubstring("again") && ContainsSubstring("remove the link"));
  fs::remove(dir.path() / "dog" / "again");

  if (geteuid() == 0) return test::skip("root may read every folder");
  fs::permissions(dir.path() / "dog", fs::perms::none);
  CHECK_THAT(failure(dir.path()), ContainsSubstring("dog") && ContainsSubstring("permissions"));
  fs::permissions(dir.path() / "dog", fs::perms::owner_all);
}
