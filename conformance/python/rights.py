"""docs/rights.md: who may use which method of AMQP and which route of the HTTP API, as tables to read and to compare.

The two tables are what the tests in `management/test_rights.py` saw. `WRITE_RIGHTS=1 pytest management/test_rights.py`
with Leveret under test writes them anew; without it they are what both brokers must answer.
"""

import pathlib
import re

PLACE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "rights.md"
ROW = re.compile(r"^\| (.+) \|$")


def read(title):
    """Rows of one table, by all cells but those of the columns that were probed."""
    head, rows = None, []
    for line in section(PLACE.read_text(encoding="utf-8"), title).splitlines():
        found = ROW.match(line)
        if not found or line.startswith("| ---"):
            continue
        cells = [cell.strip() for cell in found.group(1).split(" | ")]
        if head is None:
            head = cells
        else:
            rows.append(dict(zip(head, cells, strict=True)))
    return rows


def write(title, rows):
    """Puts a table into its place; the text around it stays."""
    head = list(rows[0])
    lines = [head, ["---"] * len(head), *(list(row.values()) for row in rows)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    text = PLACE.read_text(encoding="utf-8")
    old = section(text, title)
    start = old.find("\n|") + 1 or len(old)
    PLACE.write_text(text.replace(old, old[:start] + table + "\n"), encoding="utf-8")


def section(text, title):
    start = text.index(f"\n## {title}\n") + 1
    end = text.find("\n## ", start)
    return text[start : len(text) if end < 0 else end + 1]
