#!/usr/bin/python3
"""Counts the cases of a folder of test results; the last line reads `N passed, N failed`.

Each stage has STAGE.exit with its exit code, and may have STAGE.json (meson's log,
one test a line, cmocka's counts in its output) or STAGE.xml (junit), and STAGE.again
(junit) of the cases that failed and were run once more. A stage without
a report is one case; one that failed though its report shows no failure has one more. Before the
last line stands what the failed ones said last: there it is seen where only the end of all is.
"""

import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

SKIPPED = 77
LAST_WORDS = 15  # lines of a failed case
LAST_WORDS_IN_ALL = 60
MESON_GOOD = ("OK", "EXPECTEDFAIL")


class Said:
    """What failed cases said last, as far as there is room."""

    def __init__(self):
        self.lines = []

    def note(self, name, text):
        self.lines += [f"{name}:", *("  " + line for line in text.splitlines()[-LAST_WORDS:])]

    def show(self):
        for line in self.lines[:LAST_WORDS_IN_ALL]:
            print(line)


def count_meson(path, words):
    passed = failed = skipped = 0
    for line in path.read_text().splitlines():
        test = json.loads(line)
        said = test.get("stdout", "") + test.get("stderr", "")
        good = sum(int(n) for n in re.findall(r"\[  PASSED  \] (\d+) test", said))
        bad = sum(int(n) for n in re.findall(r"\[  FAILED  \] (?:tests: )?(\d+) test", said))
        skipped += sum(int(n) for n in re.findall(r"\[  SKIPPED \] (\d+) test", said))
        if test["result"] == "SKIP":
            skipped += 1
        elif test["result"] in MESON_GOOD:
            passed += good or 1
        else:
            passed += good
            failed += bad or 1
            print(f"failed: {test['name']} ({test['result']})")
            words.note(f"{test['name']}, exit {test.get('returncode')}", said)
    return passed, failed, skipped


def case_name(case):
    return f"{case.get('classname')}::{case.get('name')}"


def is_bad(case):
    return case.find("failure") is not None or case.find("error") is not None


def good_again(path):
    """Names of the cases that were run once more, and passed then."""
    again = path.with_suffix(".again")
    if not again.is_file():
        return set()
    return {case_name(case) for case in ET.parse(again).getroot().iter("testcase")
            if not is_bad(case) and case.find("skipped") is None}


def last_words(case):
    """What pytest tells of a case: its trace, and what it printed."""
    return "\n".join(part.text or part.get("message", "") for part in case
                     if part.tag in ("failure", "error"))


def count_junit(path, words):
    passed = failed = skipped = 0
    good = good_again(path)
    for case in ET.parse(path).getroot().iter("testcase"):
        if is_bad(case) and case_name(case) in good:
            passed += 1
            print(f"passed only when it was run once more: {case_name(case)}")
            words.note(f"{case_name(case)}, the first time", last_words(case))
        elif is_bad(case):
            failed += 1
            print(f"failed: {case_name(case)}")
            words.note(case_name(case), last_words(case))
        elif case.find("skipped") is not None:
            skipped += 1
            print(f"skipped: {case.get('classname')}::{case.get('name')}: "
                  f"{case.find('skipped').get('message')}")
        else:
            passed += 1
    return passed, failed, skipped


def count_stage(folder, stage, code, words):
    """(passed, failed, skipped) of one stage."""
    counts = None
    for suffix, count in ((".json", count_meson), (".xml", count_junit)):
        report = folder / (stage + suffix)
        if report.is_file():
            try:
                counts = count(report, words)
            except (ValueError, KeyError, ET.ParseError) as error:
                print(f"failed: {stage}: unreadable report: {error}")
                return 0, 1, 0
    if counts is None:
        if code not in (0, SKIPPED):
            print(f"failed: {stage} (exit {code})")
        return int(code == 0), int(code not in (0, SKIPPED)), int(code == SKIPPED)
    if code != 0 and counts[1] == 0:
        print(f"failed: {stage} (exit {code}, no case of it did)")
        return counts[0], 1, counts[2]
    return counts


def main():
    folder = Path(sys.argv[1])
    words = Said()
    passed = failed = skipped = 0
    for path in sorted(folder.glob("*.exit")):
        counts = count_stage(folder, path.stem, int(path.read_text()), words)
        passed += counts[0]
        failed += counts[1]
        skipped += counts[2]
    if passed + failed == 0:
        print("failed: nothing was run")
        failed = 1
    words.show()
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
