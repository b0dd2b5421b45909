"""Words the sequences are made of: names, keys, argument values, properties; the good ones and the odd ones."""

from __future__ import annotations

import random
from typing import Any

import paths  # noqa: F401
from frames.wire import BODY, HEADER, HEARTBEAT, METHOD, METHODS, Table, Value, encode_header, encode_method

QUEUES = ["diff-q1", "diff-q2", "diff-q3", "diff-q4"]
EXCHANGES = ["diff-x1", "diff-x2", "diff-x3"]
ODD_QUEUES = ["", "diff-none", "amq.odd", "diff-q1\r\n", "diff-\u00fc", "diff-\x00"]
ODD_EXCHANGES = ["", "diff-none", "amq.odd", "amq.direct", "diff-x1\n", "amq.rabbitmq.trace"]
TYPES = ["direct", "fanout", "topic", "headers"]
# Not a word that RabbitMQ knows from elsewhere, such as `Direct`: it calls those invalid and all others unknown.
ODD_TYPES = ["", "nope", "x-none"]
EXTRA_TYPES = ["x-consistent-hash", "x-modulus-hash", "x-random", "x-local-random", "x-recent-history"]
WEIGHTS = ["1", "1", "2", "10000", "0", "-1", "10001", "abc", "1.5", ""]
GOOD_WEIGHTS = ["1", "2", "10000"]
TAGS = ["t", "u", "v", ""]
QUEUES_BY_TYPE = {"classic": ["diff-q1", "diff-q2"], "quorum": ["diff-quorum1", "diff-quorum2"], "stream": ["diff-stream1"]}
KEYS = ["k1", "k2", "a.b", ""]
TOPIC_KEYS = ["a", "a.b", "a.b.c", "b", "b.a", "", ".", "a.", ".a", "a..b", "A.b", "*", "#", "a.*", "a.b.b", "a.a.b"]
TOPIC_PATTERNS = [
    "#", "*", "a", "a.*", "a.#", "*.b", "#.b", "a.*.b", "a.#.b", "#.a.#", "*.#", "#.*", "#.#", "*.*", "", ".",
    "a.", ".*", "a*", "#a", "a.#.*", "*.#.b", "#.a.#.b.#", "a.b.#.b", "#.b.*", "a..#", "**",
]  # fmt: skip
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
TEN_YEARS_MS = 315_360_000_000

INTEGER_LETTERS = {
    "b": (-(2**7), 2**7), "B": (0, 2**8), "s": (-(2**15), 2**15), "u": (0, 2**16), "I": (-(2**31), 2**31),
    "i": (0, 2**32), "l": (-(2**63), 2**63), "L": (-(2**63), 2**63),
}  # fmt: skip


def integer(dice: random.Random, value: int) -> Value:
    """The number in one of the widths it fits into."""
    letters = [letter for letter, (low, end) in INTEGER_LETTERS.items() if low <= value < end]
    return Value(dice.choice(letters), value)


WRONG_TYPES: list[Value] = [
    Value("S", "1"), Value("S", "abc"), Value("t", True), Value("V"), Value("d", 1.5), Value("f", 2.0), Value("T", 5),
    Value("D", (0, 5)), Value("A", [Value("I", 1)]), Value("F", {"a": Value("I", 1)}), Value("x", b"bin"),
    Value("I", 1), Value("l", 7),
]  # fmt: skip

# A decimal that is compared fails in RabbitMQ with 541, the kind of fault that is not worth copying; new, it is refused.
COMPARED_WRONG_TYPES = [value for value in WRONG_TYPES if value.letter != "D"]

# Per argument the numbers or strings that are taken, then those that are not.
QUEUE_ARGUMENTS: dict[str, tuple[list[Any], list[Any]]] = {
    "x-message-ttl": ([0, HOUR_MS, DAY_MS, TEN_YEARS_MS], [-1, TEN_YEARS_MS + 1]),
    "x-expires": ([HOUR_MS, DAY_MS, TEN_YEARS_MS], [0, -5, TEN_YEARS_MS + 1]),
    "x-max-length": ([0, 1, 2, 3], [-1]),
    "x-max-length-bytes": ([0, 2, 5, 20], [-1]),
    "x-overflow": (["drop-head", "reject-publish", "reject-publish-dlx"], ["nope", "", "Drop-Head"]),
    "x-dead-letter-exchange": (["", "diff-x1", "diff-x2", "diff-none"], []),
    "x-dead-letter-routing-key": (["diff-q2", "k1", ""], []),
    "x-max-priority": ([0, 1, 2, 5, 255], [-1, 256]),
    "x-single-active-consumer": ([True, False], ["true"]),
    "x-queue-mode": (["lazy", "default", "nope"], []),
    "x-queue-version": ([2], [1, 3, 0]),
    "x-queue-type": (["classic", "", "undefined"], ["nope", "Classic"]),
    "x-queue-leader-locator": (["client-local", "balanced", "random", "least-leaders", "min-masters"], ["nope", ""]),
    "x-ha-policy": (["all"], []),
    "x-unknown": ([1, "abc"], []),
    # Of other queue types, refused or ignored on a classic queue.
    "x-delivery-limit": ([], [2]),
    "x-dead-letter-strategy": ([], ["at-most-once"]),
    "x-quorum-initial-group-size": ([], [1]),
    "x-consumer-timeout": ([], [1000]),
    "x-max-age": ([], ["1h"]),
    "x-stream-max-segment-size-bytes": ([], [1000]),
    "x-max-in-memory-length": ([], [5]),
    "x-delayed-retry-type": ([], ["all"]),
    "x-queue-master-locator": ([], ["client-local"]),
}

# Methods that move nothing and end nothing, whoever may send them. Without `basic.cancel-ok`, over which RabbitMQ falls,
# and without `connection.start-ok` and the like, since the state of channel 0 is the handshake's affair.
HARMLESS = ["access.request", "channel.flow", "basic.qos", "basic.recover-async", "tx.rollback", "connection.blocked"]
FOREIGN = sorted(
    {name for name in METHODS if name.endswith("-ok")} - {"basic.cancel-ok"}
    | {"basic.deliver", "basic.return", "basic.get-empty", "channel.open", "connection.start", "connection.tune",
       "connection.secure", "connection.open", "connection.unblocked"}
)  # fmt: skip
WITH_CONTENT = ["basic.publish", "basic.publish", "basic.publish", "basic.return", "basic.deliver", "basic.get-ok"]


def frames(dice: random.Random) -> list[tuple[int, dict[str, Any]]]:
    """Frames as channel and arguments, mostly a content with something wrong in it."""
    where = dice.choice([1, 1, 1, 1, 1, 2, 2, 0, 7])
    found: list[tuple[int, dict[str, Any]]] = []

    def add(kind: int, payload: bytes, channel: int = where, **further: Any) -> None:
        found.append((channel, {"kind": kind, "payload": payload, **further}))

    def a_method() -> None:
        payload = encode_method(dice.choice(FOREIGN if dice.random() < 0.5 else HARMLESS))
        # On channel 0 RabbitMQ has 541 for what it cannot decode.
        match dice.choice(["whole"] * 6 + ["short", "long", "ids"] * (where > 0)):
            case "short":
                payload = payload[: max(len(payload) - 1, 4)]
            case "long":
                payload += dice.choice([b"\0", b"abc"])
            case "ids":
                payload = payload[: dice.choice([0, 2, 3, 4])] if dice.random() < 0.2 else payload[:4]
        add(METHOD, payload)

    def a_stray() -> None:
        kind = dice.choice([BODY, HEADER, HEARTBEAT, HEARTBEAT, 0, 4, 255])
        payload = encode_header(2) if kind == HEADER else dice.choice([b"", b"x", b"a longer one that is cut"])
        add(kind, payload, dice.choice([where, where, 0, 1, 2, 7]))

    if dice.random() < 0.25:
        a_method()
        return found
    if dice.random() < 0.1:
        a_stray()
        return found
    size = dice.choice([0, 1, 3, 3, 8])
    odd = dice.choice(["nothing", "class", "weight", "early", "late", "stray", "more", "less", "end", "twice"])
    method = dice.choice(WITH_CONTENT)
    is_taken = method == "basic.publish" and where in (1, 2)
    add(METHOD, encode_method(method, routing_key=dice.choice(QUEUES)))
    if odd == "early":
        dice.choice([a_method, a_stray])()
    further = {"class": {"class_id": dice.choice([0, 10, 50, 65535])}, "weight": {"weight": 1}}.get(odd, {})
    header = encode_header(size, **further)
    add(HEADER, header, **({"end": dice.choice([0, 205, 207])} if odd == "end" else {}))
    if size == 0 and not is_taken:
        # Refused by the channel, while the reader already looks at what comes behind it: which is first is chance.
        return found
    if odd == "twice":
        add(HEADER, header)
    if odd == "late":
        dice.choice([a_method, a_stray])()
    left = size + {"more": is_taken, "less": -1}.get(odd, 0)
    while left > 0:
        part = dice.randint(0, left)
        add(BODY, b"x" * part)
        left -= part
        if odd == "stray" and left > 0 and dice.random() < 0.5:
            a_stray()
    return found


FROM_CLIENTS = [
    "exchange.declare", "exchange.delete", "exchange.bind", "exchange.unbind", "queue.declare", "queue.bind", "queue.unbind",
    "queue.purge", "queue.delete", "basic.qos", "basic.consume", "basic.cancel", "basic.publish", "basic.get", "basic.ack",
    "basic.nack", "basic.reject", "basic.recover", "confirm.select", "tx.select", "channel.open", "channel.flow", "access.request",
]  # fmt: skip
SUITABLE = {"queue": "diff-q1", "exchange": "amq.direct", "source": "amq.direct", "destination": "diff-x1",
            "type": "direct", "consumer_tag": "t", "routing_key": "k1"}  # fmt: skip


def malformed(dice: random.Random) -> tuple[int, dict[str, Any]]:
    """A method as channel and arguments of a frame. Not with a wrong table: RabbitMQ ends the connection without a word."""
    method = METHODS[dice.choice(FROM_CLIENTS)]
    names = [argument.name for argument in method.arguments]
    suitable = {name: text for name, text in SUITABLE.items() if name in names}
    texts = [argument.name for argument in method.arguments if argument.kind == "shortstr"]
    match dice.choice(["cut", "long", "text", "odd", "bits"]):
        case "text" if texts and method.name != "basic.publish":
            payload = encode_method(method.name, **{**suitable, dice.choice(texts): dice.choice([b"\xff", b"a\xc3", b"\xed\xa0\x80"])})
        case "odd" if texts and method.name not in ("basic.publish", "exchange.declare"):
            text = dice.choice(["", "\0", "diff-q1\r\n", "\u00fc", "x" * 255, "\U0001f407"])
            payload = encode_method(method.name, **{**suitable, dice.choice(texts): text})
        case "bits" if method.arguments and method.arguments[-1].kind == "bit":
            payload = encode_method(method.name, **suitable)
            payload = payload[:-1] + bytes([payload[-1] | dice.choice([0x80, 0xE0])])
        case "long":
            payload = encode_method(method.name, **suitable) + dice.choice([b"\0", b"abc"])
        case _:
            payload = encode_method(method.name, **suitable)
            payload = payload[: dice.randint(4, max(len(payload) - 1, 4))]
    return dice.choice([1, 1, 2]), {"kind": METHOD, "payload": payload}


EXPIRATIONS = ["0", "3600000", "+3600000", "0003600000", "86400000"]
ODD_EXPIRATIONS = ["", "abc", " 1000", "1.5", "10s", "1e3", "0x10", "1 ", "-1", "315360000001", "+", "-", "+-1", "--1"]
MATCHES = ["all", "any", "all-with-x", "any-with-x"]

POLICY_NAMES = ["diff-p1", "diff-p2"]
POLICY_PATTERNS = ["^diff-", "^diff-q[12]$", "^diff-q1$", "q[23]", "^diff-x"]
ODD_POLICY_PATTERNS = ["(", "", "^nothing$", "*", 5]
POLICY_APPLIES_TO = ["all", "queues", "classic_queues", "exchanges", "quorum_queues", "streams"]

# Per key the values that are taken, then those that are not.
POLICY_KEYS: dict[str, tuple[list[Any], list[Any]]] = {
    "message-ttl": ([0, 0, HOUR_MS], [-1, "1", 1.5, TEN_YEARS_MS + 1, True]),
    "max-length": ([0, 1, 2, 3], [-1, "1", 1.5]),
    "max-length-bytes": ([0, 2, 5, 20], [-1, "1"]),
    "overflow": (["drop-head", "reject-publish", "reject-publish-dlx"], ["nope", "", 1]),
    "dead-letter-exchange": (["", "diff-x1", "diff-none"], [1, False]),
    "dead-letter-routing-key": (["diff-q2", "diff-q3", "k1", ""], [1]),
    "expires": ([HOUR_MS, DAY_MS], [0, -1, "1", TEN_YEARS_MS + 1]),
    "delivery-limit": ([1, 5], [-1, "1"]),
    "alternate-exchange": (["diff-x2", "amq.fanout"], [1]),
}


def policy_definition(dice: random.Random, *, odd: bool) -> Any:
    if odd and dice.random() < 0.3:
        return dice.choice([{}, {"nope": 1}, {"x-max-length": 1}, {"max-priority": 5, "a": ["b", {"c": None}]}])
    definition: dict[str, Any] = {}
    for _ in range(dice.choice([1, 1, 2, 3])):
        key = dice.choice(list(POLICY_KEYS))
        good, bad = POLICY_KEYS[key]
        definition[key] = dice.choice(bad if odd and dice.random() < 0.5 else good)
    if "dead-letter-routing-key" in definition:
        definition.setdefault("dead-letter-exchange", "")
    return definition


STREAM_OFFSETS: list[Any] = [
    "first", "first", "last", "next", Value("l", 0), Value("l", 1), Value("I", 2), Value("l", 5), Value("l", 100),
    "1h", "5D", Value("T", 0), Value("T", 2**33),
]  # fmt: skip
ODD_STREAM_OFFSETS: list[Any] = ["bogus", "1x", "", "First", "-1h", Value("l", -1)]

# Per argument of a consumer the types of queues that take it, values that are taken, then those that are not.
CONSUME_ARGUMENTS: dict[str, tuple[list[str], list[Any], list[Any]]] = {
    "x-priority": (["classic", "quorum"], [-1, 0, 1, 5, 2**40], [*WRONG_TYPES[:8], WRONG_TYPES[9]]),
    "x-consumer-timeout": (["quorum"], [HOUR_MS, DAY_MS], [-1, *WRONG_TYPES[:3]]),
    "x-stream-offset": (["stream"], STREAM_OFFSETS, ODD_STREAM_OFFSETS),
    "x-stream-filter": ([], ["v"], []),
    "x-stream-match-unfiltered": ([], [True], []),
    "x-cancel-on-ha-failover": (["classic", "quorum", "stream"], [True, "nope", 7], []),
    "x-unknown": (["classic", "quorum", "stream"], [1, "v"], []),
}


def consume_arguments(dice: random.Random, kind: str, *, odd: bool) -> dict[str, Any]:
    """Arguments for a consumer of a queue of this type; with `odd`, now and then one that is refused."""
    arguments: dict[str, Any] = {}
    for _ in range(dice.choice([0, 1, 1, 2])):
        key = dice.choice([key for key, (kinds, _, _) in CONSUME_ARGUMENTS.items() if odd or kind in kinds])
        kinds, good, bad = CONSUME_ARGUMENTS[key]
        if key in ("x-stream-filter", "x-stream-match-unfiltered") and kind == "stream":
            continue
        value = dice.choice(bad if odd and bad and dice.random() < 0.5 else good)
        arguments[key] = integer(dice, value) if isinstance(value, int) and not isinstance(value, bool) else value
    return arguments


HEADER_VALUES: list[Any] = [
    Value("S", "v"), Value("S", ""), Value("x", b"v"), Value("I", 1), Value("l", 1), Value("b", 1), Value("B", 1),
    Value("s", -2), Value("u", 3), Value("i", 4), Value("L", 5), Value("d", 1.0), Value("f", 1.0), Value("t", True),
    Value("t", False), Value("V"), Value("T", 5), Value("D", (2, 314)), Value("A", []),
    Value("A", [Value("I", 1), Value("S", "v")]), Value("F", {}), Value("F", {"b": Value("I", 1), "a": Value("S", "v")}),
]  # fmt: skip
NO_STORE = "x-recent-history-no-store"
HEADER_KEYS = ["a", "b", "c", "x-a", "A"]


def argument_value(dice: random.Random, key: str, *, odd: bool) -> Any:
    good, bad = QUEUE_ARGUMENTS[key]
    if odd and dice.random() < 0.5:
        return dice.choice(COMPARED_WRONG_TYPES)
    value = dice.choice((bad or good) if odd or not good else good)
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return integer(dice, value)
    return Value("x", value.encode()) if odd and dice.random() < 0.3 else value


def extra_arguments(dice: random.Random, kind: str) -> dict[str, Any]:
    """Arguments of the exchange types beyond those of AMQP; now and then wrong."""
    arguments: dict[str, Any] = {}
    if kind == "x-recent-history" and dice.random() < 0.8:
        arguments["x-recent-history-length"] = dice.choice([*[integer(dice, n) for n in (1, 2, 3)], 0, -1])
    if kind == "x-consistent-hash":
        if dice.random() < 0.3:
            arguments["hash-header"] = "a"
        if dice.random() < 0.3:
            arguments["hash-property"] = dice.choice(["message_id", "correlation_id", "timestamp", "nope", ""])
    return arguments


def header_table(dice: random.Random, count: int) -> dict[str, Value]:
    return {dice.choice(HEADER_KEYS): dice.choice(HEADER_VALUES) for _ in range(count)}


def match_table(dice: random.Random) -> dict[str, Any]:
    """Binding arguments for a headers exchange."""
    table: dict[str, Any] = {}
    if dice.random() < 0.8:
        table["x-match"] = dice.choice(MATCHES)
    elif dice.random() < 0.3:
        table["x-match"] = dice.choice([*WRONG_TYPES, Value("S", ""), Value("S", "ALL"), Value("x", b"any")])
    return table | header_table(dice, dice.choice([0, 1, 1, 2, 2, 3]))


def odd_headers(dice: random.Random) -> Any:
    table = header_table(dice, dice.randint(0, 4))
    if dice.random() < 0.2:
        return Table([*table.items(), *header_table(dice, 2).items()])
    return table


def copies(dice: random.Random, keys: list[str], *, odd: bool) -> Any:
    """A value for CC or BCC."""
    if odd:
        return dice.choice([*WRONG_TYPES, Value("A", [Value("I", 1), Value("S", dice.choice(keys))])])
    return Value("A", [Value("S", dice.choice(keys)) for _ in range(dice.randint(0, 2))])


def made_up_deaths(dice: random.Random) -> Value:
    """A history of deaths as a client may send it along, right or wrong."""
    entry: dict[str, Any] = {
        "count": Value("l", dice.choice([1, 1, 2, 7])),
        "reason": dice.choice(["rejected", "expired", "maxlen", "delivery_limit", "nope"]),
        "queue": dice.choice([*QUEUES, "diff-none"]),
        "time": Value("T", 1_000_000_000),
        "exchange": "",
        "routing-keys": Value("A", [Value("S", dice.choice(QUEUES))]),
    }
    for key in list(entry):
        if dice.random() < 0.08:
            del entry[key]
    return Value("A", [Value("F", entry)])


def properties(dice: random.Random, keys: list[str], *, odd: bool) -> dict[str, Any]:
    """Some properties of a message; with `odd`, now and then one that is refused."""
    result: dict[str, Any] = {}
    if dice.random() < 0.25:
        result["headers"] = odd_headers(dice)
    if dice.random() < 0.15:
        name = dice.choice(["CC", "BCC"])
        table = result.get("headers", {})
        pairs = list(table) if isinstance(table, Table) else list(table.items())
        result["headers"] = Table([*pairs, (name, copies(dice, keys, odd=odd))])
    if dice.random() < 0.2:
        result["delivery_mode"] = dice.choice([1, 2, 2, 0, 7])
    if dice.random() < 0.15:
        result["priority"] = dice.choice([0, 1, 2, 5, 9, 255])
    if dice.random() < 0.15:
        result["expiration"] = dice.choice(ODD_EXPIRATIONS if odd else EXPIRATIONS)
    if dice.random() < 0.05:
        result["user_id"] = dice.choice(["other", ""]) if odd else "guest"
    if dice.random() < 0.1:
        result[dice.choice(["content_type", "content_encoding", "correlation_id", "message_id", "type", "app_id"])] = (
            dice.choice(["", "t/x", "\udcff"])
        )
    if dice.random() < 0.05:
        result["timestamp"] = dice.choice([0, 1, 2**63, 2**64 - 1])
    if dice.random() < 0.03:
        result["cluster_id"] = "c"
    if dice.random() < 0.05:
        result["reply_to"] = dice.choice(["", "diff-q1", "amq.rabbitmq.reply-to" if odd else "r"])
    return result
