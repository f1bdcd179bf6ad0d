#include "config/scalars.h"

#include <cmath>
#include <limits>
#include <string>

#include "support/catch.h"
#include "texts.h"

using ampctl::config::format_count;
using ampctl::config::format_number;
using ampctl::config::load_text;
using ampctl::config::parse_integer;
using ampctl::config::parse_number;

TEST_CASE("integers are read as people write them, and nothing else is") {
  CHECK(parse_integer("42") == 42);
  CHECK(parse_integer("+7") == 7);
  CHECK(parse_integer("-3") == -3);
  CHECK(parse_integer("1e5") == 100000);
  CHECK(parse_integer("2.0e3") == 2000);
  CHECK(parse_integer("9223372036854775807") == std::numeric_limits<int64_t>::max());
  for (const auto* text :
       {"", "1.5", "1_000", "0x10", "1e-1", "1e300", "9223372036854775808", "5 ", "--5", "+-5"}) {
    INFO(text);
    CHECK_FALSE(parse_integer(text).has_value());
  }
}

TEST_CASE("numbers are read as people write them, and only finite ones") {
  CHECK(parse_number("1e-4") == 1e-4);
  CHECK(parse_number(".5") == 0.5);
  CHECK(parse_number("+2.") == 2.0);
  for (const auto* text : {"", "inf", "nan", ".inf", "1e999", "1,5", "0.1f"}) {
    INFO(text);
    CHECK_FALSE(parse_number(text).has_value());
  }
}

TEST_CASE("every number written is read back equal and has a point before its exponent") {
  for (const double value : {0.0, 1.0, 0.1, 1e-4, 1e-8, 5e-324, 65536.0, 1.0 / 3.0, 1e300, -2.5e-7,
                             std::numeric_limits<double>::max(), 0.08}) {
    const std::string text = format_number(value);
    INFO(text);
    CHECK(parse_number(text) == value);
    const size_t exponent = text.find('e');
    if (exponent != std::string::npos) CHECK(text.find('.') < exponent);
  }
  CHECK(format_number(0.0001) == "0.0001");
  CHECK(format_number(1e-8) == "1.0e-08");
}

TEST_CASE("counts are grouped by thousands") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1000) == "1,000");
  CHECK(format_count(-1281167) == "-1,281,167");
}

TEST_CASE("aliases of dtypes and spellings of truth values lead to one value") {
  const auto with = [](const std::string& line) {
    return load_text(ampctl::test::minimal() + line, "e.yaml");
  };
  for (const auto* name : {"float16", "fp16", "half"}) {
    CHECK(with("amp: {dtype: " + std::string(name) + "}\n").amp.dtype == "float16");
  }
  for (const auto* name : {"bfloat16", "bf16"}) {
    CHECK(with("amp: {dtype: " + std::string(name) + "}\n").amp.dtype == "bfloat16");
  }
  for (const auto* name : {"float32", "fp32", "float"}) {
    CHECK(with("amp: {dtype: " + std::string(name) + "}\n").amp.dtype == "float32");
  }
  for (const auto* word : {"true", "True", "yes", "on", "\"true\""}) {
    CHECK(with("amp: {scaler: {enabled: " + std::string(word) + "}}\n").amp.scaler.enabled == "true");
  }
  for (const auto* word : {"false", "FALSE", "no", "off"}) {
    CHECK(with("amp: {allow_tf32: " + std::string(word) + "}\n").amp.allow_tf32 == "false");
  }
  CHECK_FALSE(with("distributed: {world_size: auto}\n").distributed.world_size.has_value());
  CHECK(with("distributed: {world_size: 2}\n").distributed.world_size == 2);
  CHECK(with("seed: 1e5\n").seed == 100000);
  CHECK(with("log: {cuda_sync_debug: off}\n").log.cuda_sync_debug == "off");
}
