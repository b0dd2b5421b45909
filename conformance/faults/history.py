"""What was tried, confirmed, delivered and acked, and whether that can have been a broker that keeps its promises."""

import threading
import time

ACK_GRACE_SECS = 1.0
"""An ack younger than this at a crash may be forgotten (200 ms in the broker, the rest is the way there)."""


class History:
    """One queue's messages. Every method may be called from any thread."""

    def __init__(self):
        self._lock = threading.Lock()
        self.attempts = {}
        self.confirmed = set()
        self.refused = set()
        self.returned_ids = set()
        self.deliveries = []
        self.first_session = {}
        self.acked_at = {}
        self.crashes = []
        self._last_publisher = 0
        self._last_session = 0
        self.faults = []

    def new_publisher(self):
        with self._lock:
            self._note_life()
            self._last_publisher += 1
            self.attempts[self._last_publisher] = 0
            return self._last_publisher

    def new_session(self):
        with self._lock:
            self._note_life()
            self._last_session += 1
            return self._last_session

    def _note_life(self):
        # Whoever connects now has a broker before it that lives: the last crash is over.
        if self.crashes and self.crashes[-1][1] is None:
            self.crashes[-1] = (self.crashes[-1][0], time.monotonic())

    def attempt(self, publisher):
        with self._lock:
            self.attempts[publisher] += 1
            return self.attempts[publisher]

    def answered(self, publisher, number, accepted):
        with self._lock:
            (self.confirmed if accepted else self.refused).add((publisher, number))

    def returned(self, publisher, number):
        with self._lock:
            self.returned_ids.add((publisher, number))

    def delivered(self, session, found, redelivered):
        with self._lock:
            self.deliveries.append((time.monotonic(), session, found, redelivered))

    def acked(self, ids):
        now = time.monotonic()
        with self._lock:
            for each in ids:
                self.acked_at.setdefault(each, now)

    def crashed(self):
        """The broker is about to be killed."""
        with self._lock:
            self.crashes.append((time.monotonic(), None))

    def check(self, in_order=True, may_lose=frozenset()):
        """Raises with everything that cannot be; to be called when all queues were drained and acked."""
        faults = []
        lost = self.confirmed - self.acked_at.keys() - self.returned_ids - may_lose
        if lost:
            faults.append(f"{len(lost)} of {len(self.confirmed)} confirmed messages are lost: {some(lost)}")
        seen, last = {}, {}
        for at, session, found, redelivered in self.deliveries:
            if found is None or found[1] > self.attempts.get(found[0], 0):
                faults.append(f"a message nobody has published was delivered: {found}")
                continue
            if found in seen and not redelivered:
                faults.append(f"{found} came again and was not flagged redelivered")
            acked = self.acked_at.get(found)
            if found in seen and acked is not None and acked < at:
                crash = next((begin for begin, end in self.crashes if end and acked <= end <= at), None)
                if crash is None:
                    faults.append(f"{found} came again after its ack, and there was no crash")
                elif crash - acked > ACK_GRACE_SECS:
                    faults.append(f"{found} came again; it was acked {crash - acked:.1f} s before the crash")
            seen[found] = session
            key = (session, found[0])
            if in_order and last.get(key, 0) >= found[1]:
                faults.append(f"{found} came behind number {last[key]} of the same publisher")
            last[key] = found[1]
        if faults:
            more = f" (and {len(faults) - 8} more)" if len(faults) > 8 else ""
            raise AssertionError("; ".join(faults[:8]) + more)

    def summary(self):
        return (
            f"{sum(self.attempts.values())} published, {len(self.confirmed)} confirmed, "
            f"{len(self.deliveries)} deliveries, {len(self.acked_at)} acked, {len(self.crashes)} crashes"
        )


class Tally(History):
    """The same for one publisher and one consumer and any number of messages: only what is next is remembered. Every message
    has to come once and in order, which is checked at once; after a crash from where it went on."""

    def __init__(self):
        super().__init__()
        self.confirmed_count = self.refused_count = self.delivered_count = self.acked_count = 0
        self._next = 1

    def answered(self, publisher, number, accepted):
        if accepted:
            self.confirmed_count += 1
        else:
            self.refused_count += 1

    def delivered(self, session, found, redelivered):
        assert found is not None, "a damaged message was delivered"
        assert found[1] == self._next, f"number {found[1]} came, and {self._next} was next"
        self._next += 1
        self.delivered_count += 1

    def acked(self, ids):
        self.acked_count += len(ids)

    def check(self, in_order=True, may_lose=frozenset()):
        assert self.delivered_count == self.acked_count
        assert self.delivered_count >= self.confirmed_count, f"{self.delivered_count} of {self.confirmed_count} came"


def some(ids):
    return ", ".join(str(each) for each in sorted(ids)[:5])
