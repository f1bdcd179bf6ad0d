#include "base/table.h"

#include "support/catch.h"

using ampctl::Align;
using ampctl::Table;

TEST_CASE("A table's columns are as wide as their widest cells, without spaces at the ends") {
  Table table;
  table.add({"a", "long cell", "x"});
  table.add({"longer", "b", ""});
  CHECK(table.str() == "a       long cell  x\nlonger  b\n");
}

TEST_CASE("A table aligns numbers to the right and indents") {
  Table table({Align::right, Align::left}, 2);
  table.add({"5", "five"});
  table.add({"1,000", "thousand"});
  CHECK(table.str() == "      5  five\n  1,000  thousand\n");
}

TEST_CASE("A table counts characters, not bytes, and takes rows of different lengths") {
  Table table;
  table.add({"µ…", "x"});
  table.add({"ab", "y", "z"});
  table.add({"c"});
  CHECK(table.str() == "µ…  x\nab  y  z\nc\n");
}
