#include "base/format.h"

#include <clocale>
#include <cmath>
#include <limits>
#include <string>

#include "support/catch.h"

namespace ampctl {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("counts get a unit from a thousand on") {
  CHECK(format_count(0.0) == "0.00");
  CHECK(format_count(0.534) == "0.53");
  CHECK(format_count(12.34) == "12.3");
  CHECK(format_count(99.96) == "100");
  CHECK(format_count(999.4) == "999");
  CHECK(format_count(999.6) == "1.0k");
  CHECK(format_count(1234.0) == "1.2k");
  CHECK(format_count(45123.0) == "45.1k");
  CHECK(format_count(999960.0) == "1.0M");
  CHECK(format_count(3.4e6) == "3.4M");
  CHECK(format_count(-1234.0) == "-1.2k");
  CHECK(format_count(kNan) == "nan");
  CHECK(format_count(kInf) == "inf");
}

TEST_CASE("durations show the two largest units") {
  CHECK(format_duration(0.84) == "0.8s");
  CHECK(format_duration(9.96) == "10s");
  CHECK(format_duration(59.4) == "59s");
  CHECK(format_duration(59.6) == "1m00s");
  CHECK(format_duration(63.0) == "1m03s");
  CHECK(format_duration(3720.0) == "1h02m");
  CHECK(format_duration(86400.0 * 3 + 4 * 3600.0) == "3d04h");
  CHECK(format_duration(-1.0) == "0.0s");
  CHECK(format_duration(kInf) == "inf");
}

TEST_CASE("shares and percentages") {
  CHECK(format_share(0.1234) == "12.3%");
  CHECK(format_share(kNan) == "nan");
  CHECK(format_percent(91.234) == "91.23%");
  CHECK(format_percent(100.0) == "100.00%");
  CHECK(format_percent(kNan) == "nan");
}

TEST_CASE("significant digits keep their zeros, as printf's %#g") {
  CHECK(format_significant(0.412, 4) == "0.4120");
  CHECK(format_significant(6.9123, 4) == "6.912");
  CHECK(format_significant(9.9999, 4) == "10.00");
  CHECK(format_significant(0.0, 4) == "0.000");
  CHECK(format_significant(-2.5, 4) == "-2.500");
  CHECK(format_significant(0.0001234, 4) == "0.0001234");
  CHECK(format_significant(0.00001234, 4) == "1.234e-05");
  CHECK(format_significant(12345.0, 4) == "1.234e+04");
  CHECK(format_significant(kNan, 4) == "nan");
  CHECK(format_significant(-kInf, 4) == "-inf");
}

TEST_CASE("general numbers drop idle zeros, as printf's %g") {
  CHECK(format_general(0.1, 4) == "0.1");
  CHECK(format_general(0.012344, 4) == "0.01234");
  CHECK(format_general(1.5e-5, 4) == "1.5e-05");
}

TEST_CASE("scales are whole numbers, or powers of two when large") {
  CHECK(format_scale(65536.0) == "65536");
  CHECK(format_scale(1048576.0) == "1048576");
  CHECK(format_scale(16777216.0) == "2^24");
  CHECK(format_scale(std::ldexp(1.0, 100)) == "2^100");
  CHECK(format_scale(1.0) == "1");
  CHECK(format_scale(0.5) == "0.5");
  CHECK(format_scale(98304.0) == "98304");
  CHECK(format_scale(3e10) == "3e+10");
  CHECK(format_scale(kInf) == "inf");
}

TEST_CASE("numbers do not depend on the locale") {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  std::setlocale(LC_NUMERIC, "de_DE.UTF-8");
  CHECK(format_share(0.1234) == "12.3%");
  CHECK(format_general(0.1, 4) == "0.1");
  std::setlocale(LC_NUMERIC, before.c_str());
}

TEST_CASE("control characters become question marks, UTF-8 stays") {
  CHECK(printable("a\x1b[2Jb\rc\x7f") == "a?[2Jb?c?");
  CHECK(printable("zwei\n\tZeilen, \xc3\xa4") == "zwei\n\tZeilen, \xc3\xa4");
}

}  // namespace
}  // namespace ampctl
