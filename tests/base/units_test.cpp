#include "base/units.h"

#include <cstdint>
#include <limits>

#include "support/catch.h"

using ampctl::format_bytes;
using ampctl::group_digits;

TEST_CASE("Bytes are written in binary units") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.0 KiB");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(uint64_t{141} << 30) == "141.0 GiB");
  CHECK(format_bytes(std::numeric_limits<uint64_t>::max()) == "16384.0 PiB");
}

TEST_CASE("Digits are grouped by three") {
  CHECK(group_digits(0) == "0");
  CHECK(group_digits(999) == "999");
  CHECK(group_digits(1000) == "1,000");
  CHECK(group_digits(1281167) == "1,281,167");
  CHECK(group_digits(-999) == "-999");
  CHECK(group_digits(-123456) == "-123,456");
}
