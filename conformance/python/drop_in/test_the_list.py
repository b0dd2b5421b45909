"""The list in docs/drop-in.md and the tests are the same: every line has a test where it says, and no test has no line."""

import pathlib
import re

CONFORMANCE = pathlib.Path(__file__).resolve().parents[2]
PAGE = CONFORMANCE.parent / "docs" / "drop-in.md"


def numbers_of(suite):
    texts = (path.read_text(encoding="utf-8") for path in (CONFORMANCE / suite).glob("test_*.py"))
    return {number.lstrip("0") for text in texts for number in re.findall(r"^def test_(\d\d+a?)_", text, re.MULTILINE)}


def test_every_line_of_the_list_has_its_tests():
    rows = re.findall(r"^\| (\d+a?) \| .* \| ([a-z/_, ]+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert [number for number, _ in rows] == [*map(str, range(1, 42)), "41a", *map(str, range(42, 70))]
    suites = sorted({suite for _, names in rows for suite in names.split(", ")})
    claimed = {suite: {number for number, names in rows if suite in names.split(", ")} for suite in suites}
    assert claimed == {suite: numbers_of(suite) for suite in suites}
