"""Plays a sequence on a broker and writes down what it answers.

After every step the broker is asked until nothing changes any more: all channels go through a round trip, then all
queues tell their counts, and this is repeated until two rounds agree. So a step's answer contains all that it caused,
also in other queues and on other connections, and no time has to be guessed.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

import paths  # noqa: F401
from answers import Names, describe
from frames.client import Channel, Endpoint, SocketEnded
from frames.wire import FRAME_END, METHODS, Frame, Method
from http_api import Api, quoted
from link import PATIENCE_SECS, PROBE, Book, Delivery, Link
from steps import Recording, Ref, Step

DRAINED_MAX = 100
"""Messages looked at in a queue at the end."""


STILL = {
    "access.request", "basic.qos", "channel.flow", "channel.open", "confirm.select", "exchange.declare",
    "exchange.delete", "queue.declare", "tx.select",
}  # fmt: skip
"""Methods that move no message and no consumer, if they are not refused. A bind may: `x-recent-history`."""


SEQUENCE_CHANNELS = (1, 2)
"""Numbers that sequences use as they should."""


UNANSWERED = {"publish", "basic.ack", "basic.nack", "basic.reject", "frame"}
"""Methods that can go out with the next one, since no answer belongs to them."""


@dataclass(frozen=True)
class Patience:
    """`rounds` that agree mean that all is quiet; between rounds it may be left alone for a moment."""

    rounds: int
    pause_secs: float


QUICK = Patience(rounds=1, pause_secs=0.0)
SLOW = Patience(rounds=3, pause_secs=0.005)


class Player:
    """A broker to play on, with one connection that lasts for looking and cleaning up."""

    def __init__(self, endpoint: Endpoint, api: Api | None = None, login: tuple[str, str] | None = None) -> None:
        self.endpoint, self.api = endpoint, api
        # Who plays, if it is somebody else than who looks on.
        self.login = login or (endpoint.user, endpoint.password)
        self.janitor = Link(endpoint, "janitor", Names(), {})
        # Held by one run at a time: two would see each other's queues.
        book = self.janitor.book(1)
        self.janitor.ask(book, "queue.declare", ("queue.declare-ok",), is_ours=True, queue="diff-run", exclusive=True)
        self.janitor.wait(book)
        if not book.is_open:
            sys.exit(f"differential: another run uses vhost {endpoint.vhost!r} of port {endpoint.port}: {book.replies}")
        product = self.janitor.start.server_properties.plain()
        self.product = f"{product['product']} {product['version']}"
        vhost = api.get(f"vhosts/{quoted(endpoint.vhost)}").json if api else {}
        self.default_type = vhost.get("default_queue_type", "classic")

    def play(self, title: str, steps: list[Step], patience: Patience = QUICK) -> Recording:
        game = Game(self, patience, steps)
        try:
            answers = [game.step(step) for step in steps]
            answers.append(game.look(steps))
        finally:
            game.clean_up(steps)
        return Recording(title, steps, answers)


class Game:
    """One sequence on one broker."""

    def __init__(self, player: Player, patience: Patience, steps: list[Step]) -> None:
        self.api, self.janitor, self.patience = player.api, player.janitor, patience
        user, password = player.login
        self.endpoint = replace(player.endpoint, user=user, password=password)
        self.streams = _of_type(steps, "stream", player.default_type)
        self.by_consumer = _of_type(steps, "quorum", player.default_type) | self.streams
        self.names = Names()
        # Queues that may exist, with the connection that owns an exclusive one.
        self.known: dict[str, Link | None] = {}
        self.links: dict[str, Link] = {}
        # Frames that go out with the next step, and the connection they are for.
        self.joined: tuple[Link, bytes] | None = None
        self.told = ""

    # --- steps

    def step(self, step: Step) -> list[str]:
        if step.method.startswith("policy."):
            self._send_joined()
            lines = [f"{step.connection}{step.channel} {self._do_policy(step)}"]
            self._settle()
            return self._lines(lines)
        link = self._link(step.connection)
        is_still = False
        if step.method == "connection.close":
            self._send_joined()
            link.end()
            lines = ["closed"]
        elif step.method == "frame":
            self._send_frame(link, step)
            lines = []
            if step.is_joined:
                return lines
        else:
            self._send_joined()
            book = link.book(step.channel)
            lines = self._do(link, book, step)
            if step.is_joined and step.method in UNANSWERED:
                return lines
            is_still = step.method in STILL and not step.arguments.get("nowait") and book.is_open
        self._settle(is_still=is_still)
        return self._lines(lines)

    def _link(self, letter: str) -> Link:
        link = self.links.get(letter)
        if link is None or link.is_over:
            link = self.links[letter] = Link(self.endpoint, letter, self.names, self.known)
        return link

    def _send_frame(self, link: Link, step: Step) -> None:
        """Bytes as they are given. The channels are opened before, so that nothing is read within frames that go out
        together; and those do in one write, because a broker may end the socket at the first of them."""
        if self.joined is not None and self.joined[0] is not link:
            self._send_joined()
        for number in SEQUENCE_CHANNELS:
            link.book(number)
        frame = Frame(step.arguments["kind"], step.channel, step.arguments.get("payload", b""))
        earlier = b"" if self.joined is None else self.joined[1]
        self.joined = link, earlier + frame.encode(step.arguments.get("end", FRAME_END))
        if not step.is_joined:
            self._send_joined()

    def _send_joined(self) -> None:
        if self.joined is not None:
            (link, data), self.joined = self.joined, None
            link.send_bytes(data)

    def _do(self, link: Link, book: Book, step: Step) -> list[str]:
        """Sends the step and waits for its own answer."""
        book.asked = step
        if step.method in ("basic.ack", "basic.nack", "basic.reject"):
            return self._settle_tags(link, book, step)
        arguments = {key: self._resolve(value) for key, value in step.arguments.items()}
        if step.method == "publish":
            self._publish(link, book, arguments)
            return []
        answers = ()
        if step.method == "basic.get":
            answers = ("basic.get-ok", "basic.get-empty")
        elif step.method + "-ok" in METHODS and not step.arguments.get("nowait"):
            answers = (step.method + "-ok",)
        if step.arguments.get("nowait"):
            self._book_nowait(book, step.method, arguments)
        if step.method in ("basic.recover", "basic.recover-async") and arguments.get("requeue"):
            book.unacked.clear()
        link.ask(book, step.method, answers, **arguments)
        link.wait(book)
        return []

    def _resolve(self, value: Any) -> Any:
        if not isinstance(value, Ref):
            return value
        return self.names.queue(value.index) if value.kind == "queue" else self.names.tag(value.index)

    def _publish(self, link: Link, book: Book, arguments: dict[str, Any]) -> None:
        if link.is_over:
            return
        body = arguments.get("body", "").encode()
        if book.confirming:
            book.published += 1
            book.unconfirmed[book.published] = body
        try:
            Channel(link, book.number).publish(
                arguments.get("exchange", ""),
                arguments.get("routing_key", ""),
                body,
                arguments.get("properties", {}),
                mandatory=arguments.get("mandatory", False),
                immediate=arguments.get("immediate", False),
            )
        except SocketEnded:
            pass  # Reading tells.

    def _book_nowait(self, book: Book, method: str, arguments: dict[str, Any]) -> None:
        queue = arguments.get("queue", "").replace("\r", "").replace("\n", "")
        match method:
            case "queue.declare" if queue:
                book.last_queue = queue
                self.known.setdefault(queue, None)
            case "basic.consume":
                book.consumers[arguments.get("consumer_tag", "")] = queue or book.last_queue, bool(
                    arguments.get("no_ack")
                )
            case "confirm.select":
                book.confirming = True

    def _do_policy(self, step: Step) -> str:
        """Asks the HTTP API: the status, and of a refusal its reason."""
        assert self.api is not None, "a policy, and nobody said where the HTTP API is"
        arguments = dict(step.arguments)
        kind = "operator-policies" if arguments.pop("operator", False) else "policies"
        path = f"{kind}/{quoted(self.endpoint.vhost)}/{quoted(arguments.pop('name', ''))}"
        if step.method == "policy.clear":
            return str(self.api.delete(path).status)
        answer = self.api.put(path, {key.replace("_", "-"): value for key, value in arguments.items()})
        if answer.status != 400:
            return str(answer.status)
        # What a library of regular expressions says of a wrong one is its own affair.
        lines = re.sub(r"(?<=but is invalid: ).*?(?=\npriority should|$)", "...", answer.json["reason"].rstrip("\n"), flags=re.DOTALL)
        return f"400 {lines!r}"

    def _settle_tags(self, link: Link, book: Book, step: Step) -> list[str]:
        """Deliveries of several queues on one channel come in no defined order, and so their tags; `multiple` then
        becomes one call for each of those that are meant."""
        arguments = dict(step.arguments)
        wanted, multiple = arguments["delivery_tag"], arguments.get("multiple", False)
        if not isinstance(wanted, Ref):
            if any(each.tag == wanted for each in book.unacked) or (wanted == 0 and multiple):
                hit = [each for each in book.unacked if each.tag == wanted or (multiple and (each.tag < wanted or not wanted))]
                self._mark_settled(book, hit)
            link.ask(book, step.method, (), **arguments)
            return []
        if wanted.kind == "settled":
            if not book.settled:
                return ["(nothing settled)"]
            arguments["delivery_tag"] = book.settled[-1 - wanted.index % len(book.settled)]
            link.ask(book, step.method, (), **arguments)
            return []
        if not book.unacked:
            return ["(nothing unacked)"]
        chosen = book.unacked[wanted.index % len(book.unacked)]
        meant = [each for each in book.unacked if each.rank <= chosen.rank] if multiple else [chosen]
        hit = [each for each in book.unacked if each.tag <= chosen.tag] if multiple else [chosen]
        self._mark_settled(book, meant)
        if meant == hit:
            link.ask(book, step.method, (), **{**arguments, "delivery_tag": chosen.tag})
        else:
            for each in meant:
                link.ask(book, step.method, (), **{**arguments, "delivery_tag": each.tag, "multiple": False})
        return []

    def _mark_settled(self, book: Book, deliveries: list[Delivery]) -> None:
        book.unacked = [each for each in book.unacked if each not in deliveries]
        book.settled += [each.tag for each in deliveries]
        if book.in_transaction is not None:
            book.in_transaction += deliveries

    # --- quiet

    def _settle(self, *, is_still: bool = False) -> None:
        """Asks until `rounds` in a row have seen the same; where nothing can move, once."""
        self._await_confirms()
        wanted = 0 if is_still and self.patience is QUICK else self.patience.rounds
        agreed, last = -1, None
        while agreed < wanted:
            if last is not None and self.patience.pause_secs:
                time.sleep(self.patience.pause_secs)
            self._round_trips()
            state = self._counts(), sum(link.events for link in self.links.values())
            agreed = agreed + 1 if last in (None, state) else 0
            last = state

    def _await_confirms(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECS
        for link in self.links.values():
            for book in list(link.books.values()):
                while book.unconfirmed and book.in_transaction is None and book.is_open and not link.is_over:
                    if not link.read(deadline):
                        book.replies.append(f"no confirm for {list(book.unconfirmed)}")
                        book.unconfirmed.clear()

    def _round_trips(self) -> None:
        for link in self.links.values():
            books = [book for book in list(link.books.values()) if book.is_open and book.number not in (0, PROBE)]
            with link.together():
                for book in books:
                    link.ask(book, "channel.flow", ("channel.flow-ok",), is_ours=True, active=True)
            link.wait(*books)
            # A control method, such as connection.close, may have come behind the last answer.
            while not link.is_over and link._buffer:
                link.read(time.monotonic() + PATIENCE_SECS)

    def _counts(self) -> dict[str, tuple[int, int]]:
        """Ready messages and consumers of every queue there is."""
        counts: dict[str, tuple[int, int]] = {}
        owners = {id(owner): owner for owner in (self._owner(queue) for queue in self.known)}
        for owner in owners.values():
            left = [queue for queue in self.known if self._owner(queue) is owner]
            while left and not owner.is_over:
                left = self._ask_counts(owner, left, counts)
        return counts

    def _owner(self, queue: str) -> Link:
        return self.known[queue] or self.janitor

    def _ask_counts(self, owner: Link, queues: list[str], counts: dict[str, tuple[int, int]]) -> list[str]:
        """Asks after these queues; the rest, if one of them was refused and the probe's channel with it."""
        probe = owner.book(PROBE)
        probe.replies.clear()
        with owner.together():
            for queue in queues:
                owner.ask(probe, "queue.declare", ("queue.declare-ok",), is_ours=True, queue=queue, passive=True)
        owner.wait(probe)
        answered = [reply for reply in probe.replies if isinstance(reply, tuple)]
        counts.update((queue, (ready, consumers)) for queue, ready, consumers in answered)
        if len(answered) == len(queues) or owner.is_over:
            return []
        refused = queues[len(answered)]
        if self.known[refused] is None and " 405 " in str(probe.replies[-1]):
            # Exclusive, although nobody has seen it declared so: one of the connections owns it.
            self.known[refused] = next((link for link in self.links.values() if not link.is_over), None)
            if self.known[refused] is None:
                del self.known[refused]
        else:
            del self.known[refused]
        return queues[len(answered) + 1 :]

    # --- telling

    def _lines(self, lines: list[str]) -> list[str]:
        told = list(lines)
        for letter, link in sorted(self.links.items()):
            for number, book in sorted(link.books.items()):
                if number not in (0, PROBE):
                    told += [f"{letter}{number} {line}" for line in book.lines(self.by_consumer)]
            told += [f"{letter} {line}" for line in link.said]
            link.said.clear()
        counts = {self.names.hide(queue): self._shown(queue, *count) for queue, count in self._counts().items()}
        shown = ", ".join(f"{queue} {count}" for queue, count in sorted(counts.items()))
        if shown != self.told:
            told.append(f"queues: {shown}")
            self.told = shown
        return [self._hide(line) for line in told]

    def _shown(self, queue: str, ready: int, consumers: int) -> str:
        # RabbitMQ counts a stream's messages a while later, its consumers and what a delete removes not at all:
        # docs/compatibility.md, "streams".
        return "-" if queue in self.streams else f"{ready}/{consumers}"

    def _hide(self, line: str) -> str:
        if self.streams:
            line = re.sub(r"(?<= queue.delete-ok) message_count=\d+", "", line)
            line = re.sub(r"(?<= queue.declare-ok)( .*?)(?: (?:message|consumer)_count=\d+)+", r"\1", line)
        # Brokers may be asked in different vhosts, and some broker has only this one.
        vhost = rf"(?<=in vhost )(\\?'){re.escape(self.endpoint.vhost)}\1"
        return re.sub(vhost, r"\1/\1", self.names.hide(line))

    def look(self, steps: list[Step]) -> list[str]:
        """Ends all channels one by one, then looks into the queues and for the exchanges."""
        self._send_joined()
        lines: list[str] = []
        for letter, link in sorted(self.links.items()):
            for number, book in sorted(link.books.items()):
                if book.is_open and number not in (0, PROBE):
                    link.ask(book, "channel.close", ("channel.close-ok",), is_ours=True, reply_code=200)
                    link.wait(book)
                    self._settle()
                    lines += self._lines([])
        # Nothing can be taken out of a stream.
        for queue in sorted(self._counts().keys() - self.streams, key=self.names.hide):
            lines += [self._hide(f"{queue}: {line}") for line in self._drain(queue)]
        there = [name for name in sorted(_named(steps, "exchange.declare", "exchange")) if self._has_exchange(name)]
        return [*lines, f"exchanges: {', '.join(there)}"] if there else lines

    def _has_exchange(self, name: str) -> bool:
        book = self.janitor.book(1)
        self.janitor.ask(book, "exchange.declare", ("exchange.declare-ok",), is_ours=True, exchange=name, passive=True)
        self.janitor.wait(book)
        book.replies.clear()
        return book.is_open

    def _drain(self, queue: str) -> list[str]:
        owner, lines = self._owner(queue), []
        probe = owner.book(PROBE)
        while len(lines) < DRAINED_MAX and not owner.is_over:
            probe.asked = Step("", PROBE, "basic.get", {"no_ack": True})
            owner.ask(probe, "basic.get", ("basic.get-ok", "basic.get-empty"), is_ours=True, queue=queue, no_ack=True)
            owner.wait(probe)
            if not probe.handed:
                break
            method: Method = probe.handed.pop()[2]
            lines.append(describe(method, tag=0))
        if not probe.is_open:
            lines.append(str(probe.replies[-1]))
        probe.handed.clear()
        probe.replies.clear()
        return lines

    # --- afterwards

    def clean_up(self, steps: list[Step]) -> None:
        """Leaves nothing of the sequence behind."""
        for link in self.links.values():
            link.end()
        queues = {*self.known, *self.names.queues, *_named(steps, "queue.declare", "queue")}
        for step in steps:
            if step.method == "policy.set":
                self._do_policy(Step("h", 1, "policy.clear", {**step.arguments}))
        exchanges = _named(steps, "exchange.declare", "exchange")
        orders = [("exchange.delete", "exchange", name) for name in exchanges]
        orders += [("queue.delete", "queue", name) for name in queues]
        if not self._order(orders):
            # One was refused, and the rest not read.
            for order in orders:
                self._order([order])
        if self.janitor.is_over:
            raise SocketEnded(f"the connection that cleans up ended: {self.janitor.said}")

    def _order(self, orders: list[tuple[str, str, str]]) -> bool:
        book = self.janitor.book(1)
        with self.janitor.together():
            for method, key, name in orders:
                self.janitor.ask(book, method, (f"{method}-ok",), is_ours=True, **{key: name})
        self.janitor.wait(book)
        book.replies.clear()
        return book.is_open


def _of_type(steps: list[Step], kind: str, default: str) -> set[str]:
    """Queues that some step declares to be of this type, by name or as what the vhost has for all without one."""
    declares = [step.arguments for step in steps if step.method == "queue.declare"]
    return {each["queue"] for each in declares if each.get("arguments", {}).get("x-queue-type", default) == kind}


def _named(steps: list[Step], method: str, key: str) -> set[str]:
    names = {step.arguments.get(key, "") for step in steps if step.method == method}
    stripped = {name.replace("\r", "").replace("\n", "") for name in names if isinstance(name, str)}
    return {name for name in stripped if name and not name.startswith("amq.")}
