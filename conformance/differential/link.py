"""One connection of a sequence and the books kept of its channels."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import paths  # noqa: F401
from answers import Names, describe
from frames.client import Connection, Endpoint, SocketEnded
from frames.wire import METHOD_BY_IDS, Method
from steps import Step

PROBE = 65000
"""The channel that asks after queues and never belongs to the sequence."""

PATIENCE_SECS = 20.0
"""After so long without an answer that is due, the answer is silence."""

BARRIER = "(barrier)"


@dataclass
class Delivery:
    """`rank` numbers the deliveries of a channel in the order that is compared, `tag` is the broker's."""

    rank: int
    tag: int


@dataclass
class Book:
    """What is known of one channel, and what it has said during this step."""

    number: int
    is_open: bool = False
    awaited: deque[tuple[str, ...]] = field(default_factory=deque)
    asked: Step | None = None
    last_queue: str = ""
    consumers: dict[str, tuple[str, bool]] = field(default_factory=dict)
    unacked: list[Delivery] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    in_transaction: list[Delivery] | None = None
    handed_before: int = 0
    confirming: bool = False
    published: int = 0
    unconfirmed: dict[int, bytes] = field(default_factory=dict)
    replies: list[str] = field(default_factory=list)
    confirms: list[tuple[int, str]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    handed: list[tuple[str, bool, Method]] = field(default_factory=list)

    def forget(self) -> None:
        """The channel has ended; what it said in this step stays to be told."""
        kept = self.replies, self.confirms, self.cancelled, self.handed
        self.__init__(self.number)
        self.replies, self.confirms, self.cancelled, self.handed = kept

    def lines(self, by_consumer: set[str] = frozenset()) -> list[str]:
        """Takes what was said. Kinds that may overtake each other are told one after the other, each in its order;
        deliveries of one queue in their order, and queues by name. Of the queues in `by_consumer` each consumer's
        deliveries are in their order: what a quorum queue hands out in one step RabbitMQ sends consumer by consumer, and
        the consumers of a stream read it each for itself."""
        confirms = [f"confirm {number} {answer}" for number, answer in sorted(self.confirms)]

        def place(each: tuple[str, bool, Method]) -> tuple[str, str]:
            queue, _, method = each
            return queue, method.arguments.get("consumer_tag", "") if queue in by_consumer else ""

        handed = sorted(self.handed, key=place)
        tags = sorted(method.delivery_tag for _, _, method in handed)
        deliveries = []
        for rank, (_, no_ack, method) in zip(tags, handed, strict=True):
            deliveries.append(describe(method, tag=rank))
            if not no_ack and self.is_open:
                self.unacked.append(Delivery(rank, method.delivery_tag))
        if len(set(tags)) < len(tags) or (tags and tags != list(range(tags[0], tags[0] + len(tags)))):
            deliveries.append(f"delivery tags with gaps: {tags}")
        lines = [*self.replies, *confirms, *sorted(self.cancelled), *deliveries]
        self.replies, self.confirms, self.cancelled, self.handed = [], [], [], []
        return lines


class Link(Connection):
    """A connection with a letter. Nothing it reads is an error: everything becomes a line."""

    def __init__(self, endpoint: Endpoint, letter: str, names: Names, known: dict[str, Link | None]) -> None:
        super().__init__(endpoint)
        self.letter, self.names, self.known = letter, names, known
        self.is_over = False
        self.said: list[str] = []
        self.events = 0
        self.books: dict[int, Book] = {}
        self.login()

    def book(self, number: int) -> Book:
        """That channel, opened if it is not."""
        book = self.books.setdefault(number, Book(number))
        if not book.is_open and not self.is_over:
            self.ask(book, "channel.open", ("channel.open-ok",), is_ours=True)
            self.wait(book)
        return book

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is asked inside leaves in one write."""
        if self.is_over:
            yield
            return
        try:
            with self.in_one_write():
                yield
        except SocketEnded:
            self._ended("dropped")

    def ask(self, book: Book, method: str, answers: tuple[str, ...], *, is_ours: bool = False, **arguments) -> None:
        """Sends a method; what is ours is not told as an answer to the sequence."""
        if self.is_over:
            return
        if answers:
            book.awaited.append((BARRIER, *answers) if is_ours else answers)
        try:
            self.send(book.number, method, **arguments)
        except SocketEnded:
            self._ended("dropped")

    def send_bytes(self, data: bytes) -> None:
        """Sends what may be no method at all."""
        if self.is_over:
            return
        try:
            self.write(data)
        except SocketEnded:
            self._ended("dropped")

    def wait(self, *books: Book) -> None:
        """Until nothing is awaited on these channels any more."""
        deadline = time.monotonic() + PATIENCE_SECS
        while not self.is_over and any(book.awaited for book in books):
            if not self.read(deadline):
                missing = [names[-1] for book in books for names in book.awaited]
                self.said.append(f"silence instead of {', '.join(missing)}")
                self.abort()
                self._ended()

    def read(self, deadline: float) -> bool:
        """Reads a frame and books it; false if there is none until then."""
        try:
            self._receive(deadline)
        except SocketEnded:
            self._ended("dropped")
        except AssertionError as error:
            if "silent" in str(error):
                return False
            self._ended(f"broke the protocol: {str(error).splitlines()[0]}")
        for number, inbox in list(self._inbox.items()):
            while inbox and not self.is_over:
                self._enter(number, inbox.popleft())
        return True

    def end(self) -> None:
        """The polite end."""
        if self.is_over:
            return
        control = self.books.setdefault(0, Book(0, is_open=True))
        self.ask(control, "connection.close", ("connection.close-ok",), is_ours=True, reply_code=200, reply_text="bye")
        self.wait(control)
        self._ended()

    def _ended(self, how: str | None = None) -> None:
        if how is not None:
            self.said.append(how)
            self.events += 1
        self.is_over = True
        for book in self.books.values():
            book.forget()
        for queue in [queue for queue, owner in self.known.items() if owner is self]:
            del self.known[queue]
        self.hang_up()

    # --- booking

    def _enter(self, number: int, method: Method) -> None:
        if number == 0:
            self._enter_control(method)
            return
        book = self.books.setdefault(number, Book(number))
        is_ours = self._is_answer(book, method.name)
        if number != PROBE and not is_ours:
            self.events += 1
        match method.name:
            case "channel.close":
                book.replies.append(closing(method))
                self.send(number, "channel.close-ok")
                book.forget()
            case "channel.close-ok":
                book.forget()
                if not is_ours:
                    book.replies.append(method.name)
            case "basic.deliver":
                # One without a tag of its own and without an answer is known by no other name.
                unnamed = book.consumers.get("", (method.consumer_tag, False))
                queue, no_ack = book.consumers.get(method.consumer_tag, unnamed)
                book.handed.append((queue, no_ack, method))
            case "basic.ack" | "basic.nack":
                self._confirmed(book, method)
            case "basic.cancel":
                book.cancelled.append(describe(method))
            case "basic.return":
                line = describe(method)
                if book.confirming and method.body not in book.unconfirmed.values():
                    line += " (behind its confirm)"
                book.replies.append(line)
            case _:
                self._reply(book, method, is_ours)

    def _is_answer(self, book: Book, name: str) -> bool:
        """Ticks off what was awaited; true if it was our own question."""
        if book.awaited and name in book.awaited[0]:
            return book.awaited.popleft()[0] == BARRIER
        return False

    def _reply(self, book: Book, method: Method, is_ours: bool) -> None:
        step = book.asked.arguments if book.asked else {}
        match method.name:
            case "channel.open-ok":
                book.is_open = True
            case "queue.declare-ok" if book.number == PROBE:
                book.replies.append((method.queue, method.message_count, method.consumer_count))
                return
            case "queue.declare-ok":
                book.last_queue = method.queue
                owner = self if step.get("exclusive") and not step.get("passive") else None
                if not method.queue.startswith("amq.rabbitmq"):
                    self.known[method.queue] = owner or self.known.get(method.queue)
            case "basic.consume-ok":
                book.consumers[method.consumer_tag] = step.get("queue") or book.last_queue, bool(step.get("no_ack"))
            case "basic.get-ok":
                book.handed.append(("", bool(step.get("no_ack")), method))
                return
            case "confirm.select-ok":
                book.confirming = True
            case "tx.select-ok" | "tx.commit-ok" if book.in_transaction is None or method.name == "tx.commit-ok":
                book.in_transaction = []
            case "tx.rollback-ok":
                book.unacked = sorted(book.unacked + (book.in_transaction or []), key=lambda delivery: delivery.rank)
                book.in_transaction = []
        if not is_ours:
            book.replies.append(describe(method))

    def _confirmed(self, book: Book, method: Method) -> None:
        """How confirms are grouped is the broker's business, so each publish is told for itself."""
        answer = method.name.removeprefix("basic.")
        numbers = [n for n in book.unconfirmed if n <= method.delivery_tag] if method.multiple else [method.delivery_tag]
        for number in numbers:
            surplus = "" if book.unconfirmed.pop(number, None) is not None else " (nobody asked)"
            book.confirms.append((number, answer + surplus))

    def _enter_control(self, method: Method) -> None:
        control = self.books.setdefault(0, Book(0, is_open=True))
        if method.name == "connection.close":
            try:
                self.send(0, "connection.close-ok")
            except SocketEnded:
                pass
            self._ended(closing(method))
        elif self._is_answer(control, method.name):
            return
        else:
            self.said.append(describe(method))
            self.events += 1


def closing(method: Method) -> str:
    spec = METHOD_BY_IDS.get((method.class_id, method.method_id))
    return f"{method.name} {method.reply_code} {spec.name if spec else '-'} {method.reply_text!r}"
