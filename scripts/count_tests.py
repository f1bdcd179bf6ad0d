#!/usr/bin/env python3
"""Counts the test cases in ctest's JUnit report, where one ctest test is one Catch2 program.

Prints why tests were skipped and which programs failed, and last `N passed, N failed, N skipped`. A program
that did not come to its closing line (a crash, a time-out) counts as one failed test case.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

ALL_PASSED = re.compile(r"^All tests passed \(\d+ assertions? in (\d+) test cases?\)", re.MULTILINE)
TEST_CASES = re.compile(r"^test cases: +(\d+) \|(.*)$", re.MULTILINE)
COUNT_OF = re.compile(r"(\d+) (passed|failed as expected|failed|skipped)")
# Printed by tests/support/skip.h; the name keeps a test case with several sections from counting twice.
SKIPPED = re.compile(r"^SKIPPED: (.*)$", re.MULTILINE)


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list[str] = field(default_factory=list)

    def __iadd__(self, other: "Count") -> "Count":
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.reasons += other.reasons
        return self


def count_program(output: str, program_passed: bool) -> Count:
    """Reads what one Catch2 program printed; `program_passed` is ctest's verdict on it."""
    reasons = list(dict.fromkeys(SKIPPED.findall(output)))
    count = Count(skipped=len(reasons), reasons=reasons)
    if all_passed := ALL_PASSED.search(output):
        count.passed = int(all_passed.group(1)) - count.skipped
    elif totals := TEST_CASES.search(output):
        numbers = {what: int(number) for number, what in COUNT_OF.findall(totals.group(2))}
        count.failed = numbers.get("failed", 0)
        count.passed = int(totals.group(1)) - count.failed - count.skipped
    if not program_passed and count.failed == 0:
        count.failed = 1
    return count


def main(report: str) -> int:
    total = Count()
    failed_programs = []
    try:
        cases = ElementTree.parse(report).getroot().findall("testcase")
    except (OSError, ElementTree.ParseError) as error:
        print(f"ctest left no readable report in {report}: {error}")
        print("0 passed, 1 failed, 0 skipped")
        return 1
    for case in cases:
        passed = case.get("status") == "run"
        count = count_program(case.findtext("system-out") or "", passed)
        total += count
        if count.failed:
            failed_programs.append(f"{case.get('name')}: {count.failed} failed")
    for reason in total.reasons:
        print(f"skipped: {reason}")
    for program in failed_programs:
        print(program)
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
