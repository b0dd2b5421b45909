"""What a broker says, as lines that two brokers can be compared by.

Whatever may differ between two correct brokers is made equal here, each time with the reason. Everything else is kept
to the letter: texts, types of values, order within a queue.
"""

from __future__ import annotations

import re
import time
from typing import Any

import paths  # noqa: F401
from frames.wire import Method, Table, Value
from steps import show

GENERATED_QUEUE = re.compile(r"amq\.gen-[A-Za-z0-9_-]{22}")
GENERATED_TAG = re.compile(r"amq\.ctag-[A-Za-z0-9_-]{22}")

# Of nested tables the order counts (x-death has one); the top level RabbitMQ sorts by key and keeps the first of equal
# keys, while Leveret delivers the sender's bytes: docs/compatibility.md, "field tables".
CLOCK_TOLERANCE_SECS = 600


class Names:
    """Names a broker made up, numbered in the order they were seen."""

    def __init__(self) -> None:
        self.queues: list[str] = []
        self.tags: list[str] = []

    def queue(self, index: int) -> str:
        return self.queues[index - 1] if 0 < index <= len(self.queues) else "diff-never-made"

    def tag(self, index: int) -> str:
        return self.tags[index - 1] if 0 < index <= len(self.tags) else "never-made"

    def hide(self, text: str) -> str:
        text = GENERATED_QUEUE.sub(lambda found: f"queue({_number(self.queues, found[0])})", text)
        return GENERATED_TAG.sub(lambda found: f"tag({_number(self.tags, found[0])})", text)


def _number(seen: list[str], name: str) -> int:
    if name not in seen:
        seen.append(name)
    return seen.index(name) + 1


def describe(method: Method, tag: int | None = None) -> str:
    """A method and its content; `tag` stands for the delivery tag. Arguments that say nothing are left out."""
    arguments = dict(method.arguments)
    if tag is not None:
        arguments["delivery_tag"] = tag
    words = [method.name]
    words += [f"{key}={show(value)}" for key, value in arguments.items() if value not in ("", 0, False, None)]
    if method.name in ("basic.deliver", "basic.get-ok", "basic.return"):
        words += [f"{key}={show(_property(key, value))}" for key, value in method.properties.items()]
        words.append(repr(method.body.decode("utf-8", "surrogateescape")))
    return " ".join(words)


def _property(key: str, value: Any) -> Any:
    return _headers(value) if key == "headers" else value


def _headers(table: Table) -> Table:
    first: dict[str, Value] = {}
    for key, value in table:
        first.setdefault(key, _death(value) if key == "x-death" else _signed(value))
    return Table(first.items()).sorted()


def _signed(value: Value) -> Value:
    # RabbitMQ reads `L` as `l` and writes it back so: the same compatibility note, the sender's bytes.
    if value.letter == "L":
        return Value("l", value.value)
    if value.letter == "F":
        return Value("F", Table((key, _signed(item)) for key, item in value.value))
    if value.letter == "A":
        return Value("A", [_signed(item) for item in value.value])
    return value


def _death(value: Value) -> Value:
    """The times of deaths of this run as `now`; others, which a client has made up, stay."""
    if value.letter != "A":
        return _signed(value)
    return Value("A", [_one_death(entry) for entry in value.value])


def _one_death(entry: Value) -> Value:
    if entry.letter != "F":
        return _signed(entry)
    return Value("F", Table((key, _moment(item) if key == "time" else _signed(item)) for key, item in entry.value))


def _moment(value: Value) -> Value:
    is_now = value.letter == "T" and abs(value.value - time.time()) < CLOCK_TOLERANCE_SECS
    return Value("T", "now") if is_now else value
