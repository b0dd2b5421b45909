"""Sequences of methods as lines of text, and back.

A step is one line: the connection (a letter), the channel on it (a number), the method and its arguments.

    a1 queue.declare(queue='diff-q1', durable=True, arguments={'x-max-length': I(3)})
    a1 publish(routing_key='diff-q1', body='m1', properties={'expiration': '0'})
    b1 basic.ack(delivery_tag=unacked(0), multiple=True)

Values of tables may carry their type letter, as in `I(3)`. What only the broker knows is written as a reference:
`unacked(0)` is the oldest unacked delivery of the channel, `settled(0)` the latest tag it has settled, `queue(1)` the
first queue that the broker named, `tag(1)` the first such consumer tag. `frame(kind=2, payload=b'...')` is a frame as it
stands, right or wrong. A line that ends in `&` goes out with the next
one: nobody waits for what it causes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import paths  # noqa: F401  (finds the package `frames`)
from frames.wire import Table, Value

# Names that are words of Python's own.
SPELLED = {"global": "shared"}
MEANT = {spelled: name for name, spelled in SPELLED.items()}

LETTERS = "StbBsuIilLfdDTVFAx"


class Ref(NamedTuple):
    """Something that gets its value while the sequence runs."""

    kind: str
    index: int


REFS = ("unacked", "settled", "queue", "tag")


@dataclass
class Step:
    connection: str
    channel: int
    method: str
    arguments: dict[str, Any] = field(default_factory=dict)
    is_joined: bool = False

    def __str__(self) -> str:
        arguments = ", ".join(f"{SPELLED.get(key, key)}={show(value)}" for key, value in self.arguments.items())
        return f"{self.connection}{self.channel} {self.method}({arguments})" + (" &" if self.is_joined else "")


def show(value: Any) -> str:
    """A value as it stands in a line."""
    if isinstance(value, Ref):
        return f"{value.kind}({value.index})"
    if isinstance(value, Value):
        return f"{value.letter}({'' if value.value is None else show(value.value)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(key)}: {show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Table):
        # Pairs, because a table on the wire may have a key twice.
        return "{" + ", ".join(f"{show(key)}: {show(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(show(item) for item in value) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(show(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    return repr(value)


def parse_step(line: str) -> Step:
    """The step in a line; a `ValueError` says what is wrong with it."""
    text = line.strip()
    is_joined = text.endswith(" &")
    where, _, call = text.removesuffix(" &").partition(" ")
    method, bracket, rest = call.partition("(")
    if not bracket or not where[:1].isalpha() or not where[1:].isdigit():
        raise ValueError(f"no step: {line!r}")
    try:
        tree = ast.parse(f"f({rest}", mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{error.msg}: {line!r}") from None
    assert isinstance(tree, ast.Call)
    return Step(where[0], int(where[1:]), method, {MEANT.get(pair.arg, pair.arg): _value(pair.value) for pair in tree.keywords}, is_joined)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Call(func=ast.Name(id=name), args=arguments):
            items = [_value(argument) for argument in arguments]
            if name in REFS:
                return Ref(name, items[0])
            if name in LETTERS:
                return Value(name, *items)
            raise ValueError(f"unknown value {name}(...)")
        case ast.Dict(keys=keys, values=values):
            pairs = [(_value(key), _value(value)) for key, value in zip(keys, values, strict=True)]
            return dict(pairs) if len({key for key, _ in pairs}) == len(pairs) else Table(pairs)
        case ast.List(elts=elements):
            return [_value(element) for element in elements]
        case ast.Tuple(elts=elements):
            return tuple(_value(element) for element in elements)
    return ast.literal_eval(node)


@dataclass
class Recording:
    """A sequence and what a broker answered: for each step some lines, and those of the look at the end."""

    title: str
    steps: list[Step]
    answers: list[list[str]]


INDENT = "    "
TITLE = "== "
END = "end"


def write_recording(recording: Recording) -> str:
    lines = [TITLE + recording.title]
    for head, answer in zip([*map(str, recording.steps), END], recording.answers, strict=True):
        lines += [head, *(INDENT + line for line in answer)]
    return "\n".join(lines) + "\n"


def read_recordings(text: str) -> Iterator[Recording]:
    recording = None
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith(TITLE):
            if recording is not None:
                yield recording
            recording = Recording(line.removeprefix(TITLE), [], [])
        elif recording is None:
            raise ValueError(f"a line before the first {TITLE!r}: {line!r}")
        elif line.startswith(INDENT):
            recording.answers[-1].append(line.removeprefix(INDENT))
        else:
            recording.answers.append([])
            if line != END:
                recording.steps.append(parse_step(line))
    if recording is not None:
        yield recording
