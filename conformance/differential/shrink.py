"""Makes a sequence on which two brokers differ as short as it gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from steps import Step

TRIES_MAX = 200
"""Plays that one sequence may cost."""

KEPT = "x-expiry"
"""Without it Leveret removes expired messages earlier than RabbitMQ, on purpose, and every sequence would shrink to that."""


def shrink(steps: list[Step], differs: Callable[[list[Step]], bool]) -> list[Step]:
    """`differs` is true of `steps`, and of what comes back."""
    tries = TRIES_MAX

    def still(candidate: list[Step]) -> bool:
        nonlocal tries
        tries -= 1
        return tries >= 0 and differs(candidate)

    size = max(len(steps) // 2, 1)
    while size and tries > 0:
        at = len(steps)
        while at > 0:
            start = max(at - size, 0)
            candidate = steps[:start] + steps[at:]
            if candidate and still(candidate):
                steps = candidate
            at = start
        size //= 2
    for at in range(len(steps)):
        for key in list(steps[at].arguments):
            for simpler in _simpler(steps[at], key):
                candidate = [*steps[:at], simpler, *steps[at + 1 :]]
                if still(candidate):
                    steps = candidate
    return steps


def _simpler(step: Step, key: str) -> list[Step]:
    """Without this argument; if that is a table, also without each of its entries."""
    value = step.arguments[key]
    if isinstance(value, dict) and KEPT in value:
        rest = [name for name in value if name != KEPT]
        return [replace(step, arguments={**step.arguments, key: _except(value, name)}) for name in rest]
    without = replace(step, arguments={name: each for name, each in step.arguments.items() if name != key})
    if not isinstance(value, dict) or len(value) < 2:
        return [] if key in ("queue", "exchange", "delivery_tag", "kind") else [without]
    return [without, *(replace(step, arguments={**step.arguments, key: _except(value, name)}) for name in value)]


def _except(table: dict, gone: str) -> dict:
    return {name: each for name, each in table.items() if name != gone}
