"""Makes sequences: the same seed, profile and version of this file give the same sequence.

A profile weighs the kinds of steps and chooses the arguments that queues get, so that each corner is visited often
enough to get deep into it. The generator keeps a rough idea of what exists, to be right most of the time; whether a
step succeeds is the brokers' affair.

Left out on purpose: `global=True` with a prefetch, but in the profile `shared_prefetch`, whose peer has to permit it (to
others it is a prefetch of each consumer); and messages that expire behind others without `x-expiry: lazy`, which leave at their time in Leveret and
at the head of the queue in RabbitMQ (docs/compatibility.md, "message TTL"). To RabbitMQ that argument is unknown.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import paths  # noqa: F401
import vocabulary as words
from frames.wire import Value
from steps import Ref, Step


@dataclass(frozen=True)
class Profile:
    weights: dict[str, int]
    arguments: tuple[str, ...] = ()
    argument_count: tuple[int, ...] = (0, 0, 1)
    types: tuple[str, ...] = ("direct", "fanout", "topic")
    odd: float = 0.05
    alternates: float = 0.2
    prepare: tuple[str, ...] = ("queue", "queue")
    queue_type: str = ""
    nowait: float = 0.05


BASE = {"publish": 10, "get": 4, "consume": 4, "settle": 8, "cancel": 1, "declare_queue": 2, "close": 1, "qos": 1}
DYING = ("x-dead-letter-exchange", "x-dead-letter-routing-key")

PROFILES: dict[str, Profile] = {
    "topology": Profile(
        {"declare_queue": 6, "declare_exchange": 8, "bind": 10, "unbind": 4, "bind_exchange": 5, "unbind_exchange": 2,
         "delete_queue": 3, "delete_exchange": 4, "passive": 4, "publish": 8, "purge": 1, "close": 1, "consume": 1},
        odd=0.15, prepare=("queue", "exchange", "bind")),
    "arguments": Profile(
        {"declare_queue": 12, "delete_queue": 6, "passive": 1, "publish": 2},
        tuple(words.QUEUE_ARGUMENTS), (1, 1, 2, 3), odd=0.4, prepare=()),
    "redeclare": Profile(
        {"redeclare_queue": 8, "declare_queue": 2, "redeclare_exchange": 5, "declare_exchange": 2},
        tuple(words.QUEUE_ARGUMENTS), (0, 1, 1, 2), odd=0.15, prepare=("queue", "queue", "exchange")),
    "settling": Profile({**BASE, "settle": 14, "recover": 2, "wrong_tag": 1}),
    "consuming": Profile(
        {**BASE, "consume": 8, "cancel": 4, "qos": 3, "close": 2, "delete_queue": 1, "recover": 1},
        ("x-single-active-consumer", "x-max-priority"), (0, 0, 0, 1)),
    "exclusive": Profile(
        {**BASE, "declare_exclusive": 5, "declare_queue": 3, "bind": 2, "unbind": 2, "delete_queue": 2, "passive": 3,
         "purge": 2, "close_connection": 2, "declare_named": 2, "consume": 5}, odd=0.1),
    "limits": Profile(
        {**BASE, "confirm": 2, "purge": 1, "recover": 1},
        ("x-max-length", "x-max-length-bytes", "x-overflow", "x-max-priority", *DYING), (1, 2, 2, 3)),
    "expiry": Profile(
        {**BASE, "confirm": 1, "recover": 1},
        ("x-message-ttl", "x-message-ttl", "x-max-length", "x-max-priority", *DYING), (1, 1, 2, 3)),
    "dead_letters": Profile(
        {**BASE, "settle": 14, "declare_exchange": 1, "bind": 3},
        (*DYING, *DYING, "x-message-ttl", "x-max-length", "x-overflow"), (2, 2, 3),
        types=("direct", "fanout"), prepare=("queue", "queue", "exchange", "bind", "bind")),
    "transactions": Profile(
        {**BASE, "select_tx": 4, "commit": 5, "rollback": 3, "settle": 10, "wrong_tag": 1, "recover": 1, "confirm": 1},
        ("x-max-length", "x-overflow", "x-message-ttl", *DYING), (0, 0, 1, 2)),
    "confirms": Profile(
        {**BASE, "confirm": 5, "publish": 14, "delete_queue": 1, "purge": 1, "select_tx": 1},
        ("x-max-length", "x-overflow", "x-message-ttl"), (0, 1, 2), odd=0.1),
    "topics": Profile(
        {"bind": 10, "publish": 14, "unbind": 3, "bind_exchange": 2, "delete_queue": 1, "declare_queue": 1},
        types=("topic",), prepare=("queue", "queue", "queue", "exchange", "exchange", "bind", "bind", "bind")),
    "headers": Profile(
        {"bind": 10, "publish": 16, "unbind": 3, "bind_exchange": 1, "declare_queue": 1},
        types=("headers",), prepare=("queue", "queue", "queue", "exchange", "bind", "bind", "bind")),
    "extra": Profile(
        # One weight for each `x-consistent-hash`, and no exchange bound to an `x-recent-history`: a queue bound twice is lost at
        # its first unbind, and what is remembered and routes nowhere ends the connection (docs/compatibility.md).
        {"bind": 8, "publish": 14, "unbind": 3, "bind_exchange": 2, "delete_queue": 1, "declare_queue": 1, "get": 2,
         "declare_exchange": 3, "consume": 1},
        types=tuple(words.EXTRA_TYPES), prepare=("queue", "queue", "exchange", "exchange", "bind", "bind")),
    "priorities": Profile(
        {**BASE, "publish": 14, "purge": 1, "recover": 1},
        ("x-max-priority", "x-max-priority", "x-max-length", "x-message-ttl", "x-single-active-consumer"), (1, 2)),
    "bursts": Profile(
        # Without confirms: whether one comes before a later publish closes the channel is chance. Without dead-lettering:
        # whether a dead message or what was published behind its death comes first to a queue is, too.
        {**BASE, "burst": 12, "publish": 3, "settle": 3, "recover": 1},
        ("x-max-priority", "x-max-length", "x-message-ttl", "x-single-active-consumer"), (0, 1, 1, 2)),
    "routes": Profile(
        {"declare_exchange": 4, "bind": 8, "unbind": 2, "bind_exchange": 10, "unbind_exchange": 3, "publish": 16,
         "delete_exchange": 2, "declare_queue": 1, "confirm": 1},
        types=("direct", "fanout", "topic", "headers"), alternates=0.6,
        prepare=("queue", "queue", "exchange", "exchange", "exchange", "bind", "bind", "bind_exchange")),
    "quorum": Profile(
        # Without dead-lettering: counts go along from one quorum queue to the next (docs/compatibility.md,
        # "x-delivery-limit"). Without bursts: RabbitMQ takes up publishes behind settles that were sent after them.
        # Without priorities of consumers where one is active: what the active one holds is lost for the rest if its channel
        # ends when it was to give way and the others are gone.
        {**BASE, "cancel": 2, "consume": 6, "settle": 12, "recover": 1, "purge": 1, "confirm": 1},
        ("x-max-length", "x-message-ttl", "x-delivery-limit", "x-single-active-consumer"), (0, 1, 1, 2),
        queue_type="quorum"),
    "quorum_arguments": Profile(
        # Without publish: RabbitMQ counts properties to `x-max-length-bytes`.
        {"declare_queue": 12, "delete_queue": 6, "redeclare_queue": 4},
        tuple(words.QUEUE_ARGUMENTS), (0, 1, 1, 2), odd=0.3, prepare=(), queue_type="quorum"),
    "stream_arguments": Profile(
        {"declare_queue": 12, "delete_queue": 6, "redeclare_queue": 4, "purge": 1, "get": 1, "consume": 2},
        tuple(words.QUEUE_ARGUMENTS), (0, 1, 1, 2), odd=0.3, prepare=(), queue_type="stream"),
    "policies": Profile(
        {**BASE, "set_policy": 8, "clear_policy": 4, "redeclare_queue": 1, "confirm": 1, "purge": 1, "declare_exchange": 1,
         "bind": 1},
        ("x-message-ttl", "x-max-length", "x-max-length-bytes", "x-overflow", *DYING), (0, 0, 0, 1), odd=0.08,
        prepare=("queue", "queue", "exchange", "bind")),
    "cycles": Profile(
        # Each queue's dead messages go to some queue, so that they go round, or along a chain of deaths.
        {"publish_chained": 8, "get": 8, "settle": 12, "consume": 2, "cancel": 1, "purge": 1, "close": 1, "confirm": 1},
        ("x-message-ttl", "x-max-length", "x-overflow"), (0, 0, 1, 1), types=("direct", "fanout"),
        prepare=("exchange", "chain", "bind", "bind")),
    "streams": Profile(
        # With confirms, after which all is there that was published; and so one chunk for each step of it.
        {"publish_stream": 20, "consume_stream": 12, "settle": 12, "cancel": 3, "declare_queue": 1, "delete_queue": 1,
         "close": 2, "close_connection": 1, "get": 1, "purge": 1},
        ("x-max-length-bytes", "x-stream-max-segment-size-bytes", "x-max-age"), (0, 0, 1),
        prepare=("queue", "queue"), queue_type="stream", odd=0.04),
    "shared_prefetch": Profile(
        {"publish": 10, "consume": 6, "settle": 12, "qos_shared": 4, "qos": 1, "cancel": 2, "close": 1},
        ("x-max-priority",), (0, 0, 1), prepare=("queue", "qos_shared")),
    "channels": Profile(
        # Few tags, by number and by name, on channels that all take from one queue.
        {**BASE, "consume": 1, "consume_alike": 7, "cancel": 1, "cancel_alike": 5, "plain_tag": 10, "settle": 5, "recover": 3,
         "qos": 2, "close": 2, "close_connection": 1, "declare_queue": 0},
        ("x-single-active-consumer", "x-max-priority"), (0, 0, 1), odd=0.02, prepare=("queue",)),
    "nowaits": Profile(
        {"declare_queue": 4, "declare_exchange": 3, "bind": 4, "unbind": 1, "bind_exchange": 2, "unbind_exchange": 1,
         "passive": 3, "purge": 2, "delete_queue": 2, "delete_exchange": 2, "consume": 4, "cancel": 3, "confirm": 1,
         "publish": 6, "get": 1, "nameless": 8},
        ("x-max-length", "x-queue-type", "x-dead-letter-exchange"), (0, 0, 1), odd=0.1, nowait=0.5),
    "types": Profile(
        # Queues of all types side by side, each type with names of its own.
        {"declare_typed": 4, "redeclare_typed": 2, "bind_typed": 3, "publish_typed": 12, "consume_typed": 8, "get": 4,
         "settle": 10, "cancel": 2, "recover": 1, "purge": 1, "delete_queue": 1, "passive": 1, "close": 1, "close_connection": 1},
        odd=0.02, prepare=("typed", "typed", "typed", "bind_typed")),
    "consume_arguments": Profile(
        {"declare_typed": 1, "consume_typed": 16, "publish_typed": 2, "cancel": 1, "settle": 2}, odd=0.4,
        prepare=("classic", "quorum", "stream")),
    "malformed": Profile({"malformed": 10, "publish": 2, "consume": 1, "get": 1, "declare_queue": 1, "bind": 1}),
    "properties": Profile({"publish": 10, "get": 8, "consume": 1, "bind": 1}, odd=0.3),
    "frames": Profile({"frames": 10, "publish": 2, "consume": 1, "settle": 2, "confirm": 1, "get": 1}),
    "odd": Profile(
        {**BASE, "odd_method": 8, "wrong_tag": 2, "declare_exchange": 2, "bind": 2, "passive": 2, "purge": 1,
         "declare_named": 2, "delete_queue": 1, "delete_exchange": 1}, odd=0.3),
    "mixed": Profile(
        {**BASE, "declare_exchange": 3, "bind": 4, "unbind": 2, "bind_exchange": 2, "delete_queue": 2, "purge": 2,
         "delete_exchange": 1, "recover": 2, "confirm": 1, "select_tx": 1, "commit": 1, "rollback": 1, "passive": 1,
         "declare_exclusive": 1, "declare_named": 1, "close_connection": 1, "wrong_tag": 1},
        ("x-max-length", "x-message-ttl", "x-overflow", "x-max-priority", "x-single-active-consumer", *DYING),
        (0, 0, 1, 2), types=("direct", "fanout", "topic", "headers"), prepare=("queue", "queue", "exchange", "bind")),
}  # fmt: skip

WITH_POLICIES = ("policies",)
"""Profiles that need the HTTP API."""

STEPS = (10, 28)
"""The shortest and the longest sequence, without what is prepared."""


def generate(profile: str, seed: int) -> list[Step]:
    return Generator(PROFILES[profile], random.Random(f"{profile} {seed}")).sequence()


@dataclass
class Generator:
    profile: Profile
    dice: random.Random
    steps: list[Step] = field(default_factory=list)
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    exchanges: dict[str, dict[str, Any]] = field(default_factory=dict)
    bindings: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    consumers: list[tuple[str, int, str]] = field(default_factory=list)
    # Channels that may hold deliveries.
    holders: list[tuple[str, int]] = field(default_factory=list)
    # Of exchanges that choose by weight.
    weights: dict[str, str] = field(default_factory=dict)
    bodies: int = 0
    named: int = 0
    tags: int = 0
    nameless_tags: int = 0

    def sequence(self) -> list[Step]:
        prepared = {"queue": self.declare_queue, "exchange": self.declare_exchange, "bind": self.bind,
                    "bind_exchange": self.bind_exchange, "qos_shared": self.qos_shared, "chain": self.declare_chain,
                    "typed": self.declare_typed, "bind_typed": self.bind_typed,
                    **{kind: partial(self.declare_typed, kind) for kind in words.QUEUES_BY_TYPE}}  # fmt: skip
        for kind in self.profile.prepare:
            prepared[kind]()
        kinds, weights = zip(*self.profile.weights.items(), strict=True)
        for _ in range(self.dice.randint(*STEPS)):
            make: Callable[[], None] = getattr(self, self.dice.choices(kinds, weights)[0])
            make()
        return self.steps

    # --- choosing

    def chance(self, probability: float) -> bool:
        return self.dice.random() < probability

    def is_odd(self) -> bool:
        return self.chance(self.profile.odd)

    def flags(self, **probabilities: float) -> dict[str, bool]:
        return {name: True for name, probability in probabilities.items() if self.chance(probability)}

    def add(self, method: str, where: tuple[str, int] | None = None, **arguments: Any) -> Step:
        if where is None:
            where = self.dice.choices([("a", 1), ("a", 2), ("b", 1)], [6, 3, 2])[0]
        step = Step(*where, method, {key: value for key, value in arguments.items() if value not in ({}, None)})
        self.steps.append(step)
        return step

    def a_queue(self) -> Any:
        if self.is_odd():
            return self.dice.choice([*words.ODD_QUEUES, *words.QUEUES])
        if self.named and self.chance(0.2):
            return Ref("queue", self.dice.randint(1, self.named))
        return self.dice.choice(list(self.queues) or words.QUEUES)

    def an_exchange(self) -> str:
        if self.is_odd():
            return self.dice.choice([*words.ODD_EXCHANGES, *words.EXCHANGES])
        return self.dice.choice(list(self.exchanges) or words.EXCHANGES)

    def keys(self, exchange: str) -> list[str]:
        return words.TOPIC_KEYS if self.exchanges.get(exchange, {}).get("type") == "topic" else words.KEYS

    def binding(self, source: str) -> dict[str, Any]:
        kind = self.exchanges.get(source, {}).get("type")
        if kind == "topic":
            return {"routing_key": self.dice.choice(words.TOPIC_PATTERNS)}
        if kind == "headers":
            return {"routing_key": self.dice.choice(["", "k1"]), "arguments": words.match_table(self.dice)}
        if kind == "x-consistent-hash":
            return {"routing_key": self.dice.choice(words.WEIGHTS)}
        if kind == "x-local-random" and self.chance(0.8):
            return {"routing_key": ""}
        arguments = {"n": self.dice.choice([Value("I", 1), Value("l", 1)])} if self.chance(0.1) else {}
        return {"routing_key": self.dice.choice(words.KEYS), "arguments": arguments}

    # --- topology

    def queue_arguments(self) -> dict[str, Any]:
        arguments = {}
        for _ in range(self.dice.choice(self.profile.argument_count) if self.profile.arguments else 0):
            key = self.dice.choice(self.profile.arguments)
            arguments[key] = words.argument_value(self.dice, key, odd=self.is_odd())
        if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
            if not self.is_odd():
                arguments["x-dead-letter-exchange"] = self.dice.choice(["", "diff-x1"])
        if arguments.keys() & {"x-message-ttl", "x-max-priority"} or "x-message-ttl" in self.profile.arguments:
            if self.profile.queue_type != "stream":
                arguments["x-expiry"] = "lazy"
        return arguments

    def declare_queue(self) -> None:
        name = self.dice.choice(words.ODD_QUEUES if self.is_odd() and self.is_odd() else words.QUEUES)
        if name in self.queues and self.chance(0.7):
            name = self.dice.choice(words.QUEUES)
        arguments, flags = self.queue_arguments(), self.flags(durable=0.6, auto_delete=0.1)
        if "x-expiry" not in arguments and self.profile.queue_type != "stream":
            arguments["x-expiry"] = "lazy"
        if self.profile.queue_type and not (self.is_odd() and self.is_odd()):
            arguments["x-queue-type"] = self.profile.queue_type
            if not self.is_odd():
                flags = {"durable": True}
        self.queues.setdefault(name, {**flags, "arguments": arguments})
        self.add("queue.declare", queue=name, **flags, arguments=arguments, **self.flags(nowait=self.profile.nowait))

    def declare_exclusive(self) -> None:
        name = self.dice.choice(words.QUEUES)
        flags = {"exclusive": True, **self.flags(durable=0.2, auto_delete=0.2)}
        self.queues.setdefault(name, flags)
        self.add("queue.declare", queue=name, **flags, arguments=self.queue_arguments())

    def declare_named(self) -> None:
        self.named += 1
        self.add("queue.declare", queue="", **self.flags(exclusive=0.6, durable=0.3, auto_delete=0.3))

    def redeclare_queue(self) -> None:
        if not self.queues:
            return
        name = self.dice.choice(list(self.queues))
        before = self.queues[name]
        arguments = dict(before.get("arguments", {}))
        changes = self.dice.choice(["nothing", "width", "value", "gone", "more", "flag"])
        known = [key for key in arguments if key in words.QUEUE_ARGUMENTS]
        flags = {key: value for key, value in before.items() if key != "arguments"}
        if changes == "more":
            key = self.dice.choice(list(words.QUEUE_ARGUMENTS))
            arguments[key] = words.argument_value(self.dice, key, odd=self.chance(0.3))
        elif changes == "flag":
            flag = self.dice.choice(["durable", "auto_delete", "exclusive"])
            flags = {**flags, flag: not flags.get(flag, False)}
        elif known:
            key = self.dice.choice(known)
            value = arguments[key]
            if changes == "gone":
                del arguments[key]
            elif changes == "value":
                arguments[key] = words.argument_value(self.dice, key, odd=self.chance(0.4))
            elif changes == "width" and isinstance(value, Value) and value.letter in words.INTEGER_LETTERS:
                number = value.value
                same = [Value("d", float(number)), Value("T", number), Value("S", str(number)), Value("t", bool(number))]
                arguments[key] = self.dice.choice([words.integer(self.dice, number)] * 3 + [same[0], same[2], same[3]])
                if number >= 0 and self.chance(0.1):
                    arguments[key] = same[1]
        self.add("queue.declare", queue=name, **flags, arguments=arguments)

    def passive(self) -> None:
        if self.chance(0.5):
            self.add("queue.declare", queue=self.a_queue(), passive=True, **self.flags(durable=0.3, nowait=max(self.profile.nowait, 0.1)))
        else:
            kind = self.dice.choice([*words.TYPES, *words.ODD_TYPES])
            self.add("exchange.declare", exchange=self.an_exchange(), type=kind, passive=True, **self.flags(durable=0.3))

    def declare_exchange(self) -> None:
        name = self.dice.choice(words.ODD_EXCHANGES if self.is_odd() and self.is_odd() else words.EXCHANGES)
        kind = self.dice.choice(words.ODD_TYPES if self.is_odd() else self.profile.types)
        flags = self.flags(durable=0.5, auto_delete=0.15, internal=0.1)
        arguments: dict[str, Any] = {}
        if self.chance(self.profile.alternates):
            wrong = self.is_odd()
            alternates = words.WRONG_TYPES if wrong else [*words.EXCHANGES, "diff-none", "", "amq.fanout"]
            arguments["alternate-exchange"] = self.dice.choice(alternates)
        if kind in words.EXTRA_TYPES:
            arguments |= words.extra_arguments(self.dice, kind)
        self.exchanges.setdefault(name, {"type": kind, **flags, "arguments": arguments})
        self.add("exchange.declare", exchange=name, type=kind, **flags, arguments=arguments, **self.flags(nowait=self.profile.nowait))

    def redeclare_exchange(self) -> None:
        if not self.exchanges:
            return
        name = self.dice.choice(list(self.exchanges))
        settings = dict(self.exchanges[name])
        arguments = dict(settings.pop("arguments", {}))
        match self.dice.choice(["nothing", "type", "flag", "alternate", "unknown"]):
            case "type":
                settings["type"] = self.dice.choice([*words.TYPES, *words.ODD_TYPES])
            case "flag":
                flag = self.dice.choice(["durable", "auto_delete", "internal"])
                settings[flag] = not settings.get(flag, False)
            case "alternate":
                arguments["alternate-exchange"] = self.dice.choice(["diff-x1", "diff-none", *words.COMPARED_WRONG_TYPES])
            case "unknown":
                arguments["hash-header"] = "h"
        self.add("exchange.declare", exchange=name, **settings, arguments=arguments)

    def bind(self) -> None:
        source = self.an_exchange()
        queue = self.a_queue()
        kind = self.exchanges.get(source, {}).get("type")
        if kind in words.EXTRA_TYPES[:-1]:
            # One destination for each exchange that chooses one: which key goes where is a deliberate difference
            # (docs/compatibility.md, "x-consistent-hash"), and with two it would be chance for the others.
            queue = "diff-q1"
        binding = {"exchange": source, "queue": queue, **self.binding(source)}
        if kind == "x-consistent-hash" and binding["routing_key"] in words.GOOD_WEIGHTS:
            binding["routing_key"] = self.weights.setdefault(source, binding["routing_key"])
        self.bindings.append(("queue.unbind", binding))
        self.add("queue.bind", **binding, **self.flags(nowait=self.profile.nowait))

    def unbind(self) -> None:
        self._unbind("queue.unbind")

    def _unbind(self, method: str) -> None:
        made = [binding for name, binding in self.bindings if name == method]
        if not made:
            return
        binding = dict(self.dice.choice(made))
        if self.is_odd():
            key = self.dice.choice(list(binding))
            if key != "arguments":
                binding[key] = self.dice.choice(["diff-none", "", "diff-q2"])
        self.add(method, **binding)

    def bind_exchange(self) -> None:
        source = self.an_exchange()
        if self.exchanges.get(source, {}).get("type") in words.EXTRA_TYPES:
            return
        binding = {"source": source, "destination": self.an_exchange(), **self.binding(source)}
        self.bindings.append(("exchange.unbind", binding))
        self.add("exchange.bind", **binding, **self.flags(nowait=self.profile.nowait))

    def unbind_exchange(self) -> None:
        self._unbind("exchange.unbind")

    def delete_queue(self) -> None:
        name = self.a_queue()
        step = self.add("queue.delete", queue=name, **self.flags(if_unused=0.25, if_empty=0.25, nowait=self.profile.nowait))
        if not step.arguments.keys() & {"if_unused", "if_empty"}:
            self.queues.pop(name, None)

    def delete_exchange(self) -> None:
        name = self.an_exchange()
        step = self.add("exchange.delete", exchange=name, **self.flags(if_unused=0.4, nowait=self.profile.nowait))
        if "if_unused" not in step.arguments:
            self.exchanges.pop(name, None)

    def purge(self) -> None:
        self.add("queue.purge", queue=self.a_queue(), **self.flags(nowait=self.profile.nowait))

    # --- messages

    def publish(self) -> None:
        for _ in range(self.dice.choice([1, 1, 2, 3])):
            self.bodies += 1
            exchange = self.an_exchange() if self.exchanges and self.chance(0.6) else ""
            key = self.dice.choice(self.keys(exchange)) if exchange else self.a_queue()
            if self.is_odd():
                key = self.dice.choice([*words.KEYS, *words.QUEUES, "\udcff"])
            candidates = self.keys(exchange) if exchange else list(self.queues) or words.QUEUES
            properties = words.properties(self.dice, candidates, odd=self.is_odd())
            if self.exchanges.get(exchange, {}).get("type") == "headers" and self.chance(0.8):
                properties["headers"] = words.header_table(self.dice, self.dice.choice([0, 1, 2, 3]))
            if self.exchanges.get(exchange, {}).get("type") == "x-recent-history" and self.chance(0.2):
                properties["headers"] = {words.NO_STORE: self.dice.choice([True, False, "true", 1])}
            if properties.get("expiration") == "0" and "priority" in properties:
                # At the head by its priority alone, RabbitMQ may hand it out although its time is over.
                del properties["expiration"]
            if self.profile.queue_type:
                # Text that is none makes RabbitMQ fail with 541 on these types.
                key = "k1" if key == "\udcff" else key
                properties = {name: "t/x" if text == "\udcff" else text for name, text in properties.items()}
            body = f"m{self.bodies}" + "." * self.dice.choice([0, 0, 0, 2, 8, 20])
            flags = {**self.flags(mandatory=0.25), **({"immediate": True} if self.is_odd() and self.is_odd() else {})}
            self.add("publish", exchange=exchange, routing_key=key, body=body, **flags, properties=properties)

    def get(self) -> None:
        step = self.add("basic.get", queue=self.a_queue(), **self.flags(no_ack=0.3))
        self.holders.append((step.connection, step.channel))

    def consume(self) -> None:
        tag = ""
        if self.chance(0.9):
            self.tags += 1
            tag = f"c{self.tags}"
            if self.is_odd() and self.is_odd():
                tag = "c1"
        arguments: dict[str, Any] = {}
        if self.chance(0.2) and not (self.profile.queue_type and "x-single-active-consumer" in self.profile.arguments):
            wrong = self.is_odd()
            arguments["x-priority"] = (
                self.dice.choice(words.WRONG_TYPES) if wrong else words.integer(self.dice, self.dice.choice([-1, 1, 5]))
            )
        flags = self.flags(no_ack=0.25, exclusive=0.07, no_local=0.05, nowait=self.profile.nowait)
        step = self.add("basic.consume", queue=self.a_queue(), consumer_tag=tag, **flags, arguments=arguments)
        self.consumers.append((step.connection, step.channel, tag))
        self.holders += [(step.connection, step.channel)] * 2

    def cancel(self) -> None:
        if self.consumers and not self.is_odd():
            letter, number, tag = self.dice.choice(self.consumers)
            self.add("basic.cancel", (letter, number), consumer_tag=tag, **self.flags(nowait=max(self.profile.nowait, 0.1)))
        else:
            self.add("basic.cancel", consumer_tag="c1")

    def settle(self) -> None:
        method = self.dice.choice(["basic.ack", "basic.nack", "basic.nack", "basic.reject"])
        flags: dict[str, Any] = {} if method == "basic.reject" else self.flags(multiple=0.35)
        if method != "basic.ack" and self.chance(0.6):
            flags["requeue"] = False
        where = self.dice.choice(self.holders[-4:]) if self.holders else None
        self.add(method, where, delivery_tag=Ref("unacked", self.dice.choice([0, 0, 1, 2, 5])), **flags)

    def wrong_tag(self) -> None:
        method = self.dice.choice(["basic.ack", "basic.nack", "basic.reject"])
        flags = {} if method == "basic.reject" else self.flags(multiple=0.5)
        self.add(method, delivery_tag=self.dice.choice([0, 99, 2**64 - 1, Ref("settled", 0), Ref("settled", 1)]), **flags)

    def recover(self) -> None:
        method = self.dice.choice(["basic.recover", "basic.recover-async"])
        self.add(method, requeue=not (self.is_odd() and self.is_odd()))

    def qos(self) -> None:
        if self.is_odd() and self.is_odd():
            self.add("basic.qos", prefetch_size=1)
        else:
            self.add("basic.qos", prefetch_count=self.dice.choice([0, 1, 1, 2, 3]))

    def qos_shared(self) -> None:
        self.add("basic.qos", prefetch_count=self.dice.choice([0, 1, 2, 2, 3, 5]), **{"global": True})

    def burst(self) -> None:
        """Publishes and settles of one channel that go out together."""
        where = self.dice.choice(self.holders[-4:]) if self.holders else ("a", 1)
        first = len(self.steps)
        for _ in range(self.dice.randint(2, 4)):
            self.dice.choice([self.publish, self.settle])()
        for step in self.steps[first:]:
            step.connection, step.channel = where
            step.is_joined = True
        self.steps[-1].is_joined = False

    def frames(self) -> None:
        """Frames of which some are wrong, in one go."""
        letter = "a" if self.chance(0.8) else "b"
        first = len(self.steps)
        for number, arguments in words.frames(self.dice):
            self.add("frame", (letter, number), **arguments)
        for step in self.steps[first:-1]:
            step.is_joined = True

    def malformed(self) -> None:
        """One method that ends too early or too late, or has text that is none."""
        number, arguments = words.malformed(self.dice)
        self.add("frame", ("a" if self.chance(0.8) else "b", number), **arguments)

    # --- policies

    def set_policy(self) -> None:
        pattern = self.dice.choice(words.ODD_POLICY_PATTERNS if self.is_odd() else words.POLICY_PATTERNS)
        arguments = {
            "name": self.dice.choice(words.POLICY_NAMES),
            "pattern": pattern,
            "definition": words.policy_definition(self.dice, odd=self.is_odd()),
            **self.flags(operator=0.2),
        }
        if self.chance(0.6):
            arguments["apply_to"] = "nope" if self.is_odd() else self.dice.choice(words.POLICY_APPLIES_TO[:3])
        if self.chance(0.6):
            # One each: of two of the same priority either may win.
            arguments["priority"] = "high" if self.is_odd() else words.POLICY_NAMES.index(arguments["name"])
        else:
            arguments["priority"] = 5 + words.POLICY_NAMES.index(arguments["name"])
        self.add("policy.set", ("h", 1), **arguments)

    def clear_policy(self) -> None:
        self.add("policy.clear", ("h", 1), name=self.dice.choice(words.POLICY_NAMES), **self.flags(operator=0.2))

    # --- dead letters that go round

    def declare_chain(self) -> None:
        for name in words.QUEUES:
            arguments = self.queue_arguments()
            arguments["x-expiry"] = "lazy"
            if self.chance(0.85):
                arguments["x-dead-letter-exchange"] = self.dice.choice(["", "", "", *self.exchanges])
                if self.chance(0.85):
                    arguments["x-dead-letter-routing-key"] = self.dice.choice(words.QUEUES)
            self.queues[name] = {"arguments": arguments}
            self.add("queue.declare", ("a", 1), queue=name, arguments=arguments)

    def publish_chained(self) -> None:
        first = len(self.steps)
        self.publish()
        for step in self.steps[first:]:
            properties = step.arguments.get("properties", {})
            if self.chance(0.15):
                properties = {**properties, "headers": {"x-death": words.made_up_deaths(self.dice)}}
            elif self.chance(0.3):
                properties = {**properties, "headers": {"CC": words.copies(self.dice, words.QUEUES, odd=False)}}
            if properties:
                step.arguments["properties"] = properties

    # --- streams

    def publish_stream(self) -> None:
        where = self.dice.choice([("a", 1), ("a", 2), ("b", 1)])
        self.add("confirm.select", where)
        for _ in range(self.dice.choice([1, 1, 2, 3])):
            self.bodies += 1
            properties = {"message_id": "m"} if self.chance(0.2) else {}
            if self.chance(0.2):
                properties["headers"] = {"a": "v"}
            self.add("publish", where, exchange="", routing_key=self.a_queue(), body=f"m{self.bodies}", properties=properties)

    def consume_stream(self) -> None:
        self.tags += 1
        offsets = words.ODD_STREAM_OFFSETS if self.is_odd() else words.STREAM_OFFSETS
        arguments = {"x-stream-offset": self.dice.choice(offsets)} if self.chance(0.85) else {}
        flags = {**self.flags(nowait=self.profile.nowait), **({"no_ack": True} if self.is_odd() else {})}
        where = self.dice.choice([("a", 1), ("a", 2), ("b", 1)])
        if self.chance(0.95):
            self.add("basic.qos", where, prefetch_count=self.dice.choice([0, 1] if self.is_odd() else [1, 2, 3, 10]))
        tag = f"c{self.tags}"
        step = self.add("basic.consume", where, queue=self.a_queue(), consumer_tag=tag, **flags, arguments=arguments)
        self.consumers.append((step.connection, step.channel, f"c{self.tags}"))
        self.holders += [(step.connection, step.channel)] * 2

    # --- several types of queues

    def declare_typed(self, kind: str | None = None) -> None:
        kind = kind or self.dice.choice(list(words.QUEUES_BY_TYPE))
        name = self.dice.choice(words.QUEUES_BY_TYPE[kind])
        arguments = {"x-queue-type": kind}
        self.queues[name] = {"durable": True, "arguments": arguments}
        self.add("queue.declare", queue=name, durable=True, arguments=arguments, **self.flags(nowait=self.profile.nowait))

    def redeclare_typed(self) -> None:
        """One that is there, otherwise; so that it is refused."""
        if not self.queues:
            return
        name = self.dice.choice(list(self.queues))
        kind = self.queues[name]["arguments"]["x-queue-type"]
        arguments: dict[str, Any] = {"x-queue-type": kind}
        flags = {"durable": True}
        match self.dice.choice(["type", "none", "flag", "argument"]):
            case "type":
                arguments["x-queue-type"] = self.dice.choice([*words.QUEUES_BY_TYPE, "nope", "", Value("I", 1)])
            case "none":
                del arguments["x-queue-type"]
            case "flag":
                flags = self.flags(durable=0.6, auto_delete=0.5, exclusive=0.3)
            case "argument":
                key = self.dice.choice(list(words.QUEUE_ARGUMENTS))
                arguments[key] = words.argument_value(self.dice, key, odd=self.chance(0.3))
        self.add("queue.declare", queue=name, **flags, arguments=arguments)

    def bind_typed(self) -> None:
        key = self.dice.choice(words.KEYS)
        self.add("queue.bind", queue=self.a_queue(), exchange=self.dice.choice(["amq.fanout", "amq.direct"]), routing_key=key)

    def publish_typed(self) -> None:
        """With confirms, after which all is there that was published, also in a stream."""
        where = self.dice.choice([("a", 1), ("a", 2), ("b", 1)])
        self.add("confirm.select", where)
        self.bodies += 1
        properties: dict[str, Any] = {"message_id": "m"} if self.chance(0.2) else {}
        if self.chance(0.2):
            properties["headers"] = {"a": "v"}
        exchange = self.dice.choice(["", "", "amq.fanout", "amq.direct"])
        key = self.dice.choice(words.KEYS) if exchange else self.a_queue()
        self.add("publish", where, exchange=exchange, routing_key=key, body=f"m{self.bodies}",
                 **self.flags(mandatory=0.3), properties=properties)  # fmt: skip

    def consume_typed(self) -> None:
        self.tags += 1
        where = self.dice.choice([("a", 1), ("a", 2), ("b", 1)])
        queue = self.a_queue()
        kind = self.queues.get(queue, {}).get("arguments", {}).get("x-queue-type", "classic")
        if kind == "stream" or self.chance(0.4):
            self.add("basic.qos", where, prefetch_count=self.dice.choice([1, 2, 10]))
        arguments = words.consume_arguments(self.dice, kind, odd=self.is_odd())
        flags = self.flags(no_ack=0.05 if kind == "stream" else 0.25, exclusive=0.1, nowait=self.profile.nowait)
        self.add("basic.consume", where, queue=queue, consumer_tag=f"c{self.tags}", **flags, arguments=arguments)
        self.consumers.append((*where, f"c{self.tags}"))
        self.holders += [where] * 2

    # --- the same tags everywhere

    def consume_alike(self) -> None:
        flags = self.flags(no_ack=0.2, exclusive=0.05, nowait=self.profile.nowait)
        tag = self.dice.choice(words.TAGS)
        step = self.add("basic.consume", queue=self.a_queue(), consumer_tag=tag, **flags)
        self.holders += [(step.connection, step.channel)] * 2

    def cancel_alike(self) -> None:
        tag = self.dice.choice([*words.TAGS, "never", Ref("tag", 1)])
        self.add("basic.cancel", consumer_tag=tag, **self.flags(nowait=0.2))

    def plain_tag(self) -> None:
        """A number, which may be that of another channel."""
        method = self.dice.choice(["basic.ack", "basic.nack", "basic.reject"])
        flags: dict[str, Any] = {} if method == "basic.reject" else self.flags(multiple=0.4)
        if method != "basic.ack" and self.chance(0.5):
            flags["requeue"] = False
        self.add(method, delivery_tag=self.dice.choice([1, 1, 2, 2, 3, 4, 5, 0]), **flags)

    # --- modes and ends

    def confirm(self) -> None:
        self.add("confirm.select", **self.flags(nowait=max(self.profile.nowait, 0.1)))

    def select_tx(self) -> None:
        self.add("tx.select", ("a", 1) if self.chance(0.8) else None)

    def commit(self) -> None:
        self.add("tx.commit", ("a", 1) if self.chance(0.9) else None)

    def rollback(self) -> None:
        self.add("tx.rollback", ("a", 1) if self.chance(0.9) else None)

    def close(self) -> None:
        self.add("channel.close", reply_code=200)

    def close_connection(self) -> None:
        self.add("connection.close", ("b", 1) if self.chance(0.7) else ("a", 1))

    def nameless(self) -> None:
        """An empty name of a queue stands for the last one that this channel declared."""
        method = self.dice.choice(
            ["queue.declare", "queue.declare", "queue.purge", "queue.delete", "queue.bind", "queue.unbind", "basic.consume",
             "basic.get"]
        )  # fmt: skip
        arguments: dict[str, Any] = {"queue": ""}
        if method in ("queue.bind", "queue.unbind"):
            arguments |= {"exchange": self.dice.choice(["amq.direct", "amq.fanout", ""]), "routing_key": self.dice.choice(["", "k1"])}
        elif method == "queue.declare":
            # Exclusive, or nobody would know it to delete it.
            arguments |= {"exclusive": True, **self.flags(passive=0.2)}
        if method not in ("queue.unbind", "basic.get"):
            arguments |= self.flags(nowait=self.profile.nowait)
        self.add(method, **arguments)

    def odd_method(self) -> None:
        choice = self.dice.choice(
            ["access.request", "channel.flow", "flow_off", "channel.open", "tx.commit", "recover_off", "qos_size",
             "confirm_tx", "consume_again", "empty_names", "immediate", "cancel-ok"]
        )  # fmt: skip
        match choice:
            case "access.request" | "tx.commit" | "channel.open":
                self.add(choice)
            case "channel.flow":
                self.add(choice, active=True)
            case "flow_off":
                self.add("channel.flow", active=False)
            case "recover_off":
                self.add("basic.recover", requeue=False)
            case "qos_size":
                self.add("basic.qos", prefetch_size=7, prefetch_count=1)
            case "confirm_tx":
                self.add("confirm.select")
                self.add("tx.select")
            case "consume_again":
                self.add("basic.consume", ("a", 1), queue=self.a_queue(), consumer_tag="same")
                self.add("basic.consume", ("a", 1), queue=self.a_queue(), consumer_tag="same")
            case "empty_names":
                method = self.dice.choice(["queue.purge", "queue.delete", "basic.get", "basic.consume"])
                self.add(method, queue="")
                self.add("queue.bind", queue="", exchange="amq.direct", routing_key="")
            case "immediate":
                self.add("publish", exchange="", routing_key=self.a_queue(), body="now", immediate=True)
            case "cancel-ok":
                self.add("access.request", realm="/x")
