"""Two brokers side by side: the same random sequences of methods, every answer compared.

  run [FILTER]                     the recorded sequences against the broker at BROKER_URL, then, if a peer is named by
                                   PEER_URL or --peer, some fresh ones on both
  run --seeds 1-500 [FILTER]       sequences of these seeds on both; FILTER is part of a profile's name
  run --replay FILE                the sequences of a file on the broker, and on the peer if there is one
  run --record                     writes the recordings anew from the peer

FILE holds lines as the runner prints them; `-` is standard input. A difference is printed as the shortest sequence that
shows it, with both answers, and can be given to --replay as it is.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import paths
from frames.client import Endpoint, SocketEnded
from generate import PROFILES, WITH_POLICIES, generate
from http_api import Api
from play import QUICK, SLOW, Player
from shrink import shrink
from steps import INDENT, Recording, Step, parse_step, read_recordings, write_recording

FRESH_SEEDS = range(1, 6)
"""Of each profile, when a peer is at hand."""

RECORDED_SEEDS = range(1, 9)
"""Of each profile, in the recordings."""

FOUND = "found"
"""Recorded beside the profiles: short sequences that once showed a difference. `--record` plays them anew."""

DIGITS = "0123456789'\"(){}[],.-"

AGAIN = 3
"""A difference counts if it shows this often, slowly, and the peer agrees with itself each time."""


def endpoint(url: str) -> Endpoint:
    parts = urlsplit(url)
    vhost = unquote(parts.path[1:]) if len(parts.path) > 1 else "/"
    return Endpoint(
        parts.hostname or "127.0.0.1", parts.port or 5672, parts.username or "guest", parts.password or "guest", vhost
    )


def first_difference(ours: Recording, theirs: Recording) -> int | None:
    pairs = zip(ours.answers, theirs.answers, strict=True)
    return next((at for at, (our, their) in enumerate(pairs) if our != their), None)


class Pair:
    """The broker under test and its peer."""

    def __init__(self, broker: Player, peer: Player) -> None:
        self.broker, self.peer = broker, peer
        self.undecided = 0

    def difference(self, title: str, steps: list[Step]) -> tuple[Recording, Recording, int] | None:
        """Both answers and the step at which they part; nothing if the peer does not always answer the same."""
        ours, theirs = self.broker.play(title, steps), self.peer.play(title, steps)
        if first_difference(ours, theirs) is None:
            return None
        slow = [self.peer.play(title, steps, SLOW) for _ in range(AGAIN)]
        ours = self.broker.play(title, steps, SLOW)
        at = first_difference(ours, slow[0])
        if at is None:
            return None
        if any(each.answers != slow[0].answers for each in slow):
            self.undecided += 1
            if title:
                print(f"{title}: undecided, the peer answers now so, now so", flush=True)
            return None
        return ours, slow[0], at

    def difference_or_again(self, title: str, steps: list[Step]) -> tuple[Recording, Recording, int] | None:
        """RabbitMQ now and then answers 541 to whoever asks after a queue in the moment in which it goes."""
        try:
            return self.difference(title, steps)
        except SocketEnded:
            self.renew()
            return self.difference(title, steps)

    def renew(self) -> None:
        """One of the two ended a connection that only looks on; what is left of the others would be another run."""
        for player in (self.broker, self.peer):
            player.janitor.end()
        self.broker, self.peer = (
            Player(player.endpoint, player.api, player.login) for player in (self.broker, self.peer)
        )

    def differs(self, steps: list[Step]) -> bool:
        """For shrinking, which cannot take so long each time; what comes of it is looked at again."""
        return first_difference(self.broker.play("", steps), self.peer.play("", steps)) is not None


def tell(title: str, ours: Recording, theirs: Recording, at: int) -> None:
    print(f"\n== {title}")
    for number, step in enumerate(ours.steps[: at + 1]):
        print(step)
        if number < at:
            print("\n".join(INDENT + line for line in theirs.answers[number]) or f"{INDENT}#")
    print("#   here they part" if at < len(ours.steps) else "end\n#   here they part")
    for name, recording in (("broker", ours), ("peer", theirs)):
        for line in recording.answers[at] or ["(nothing)"]:
            print(f"#   {name:6} {line}")
    sys.stdout.flush()


def signature(steps: list[Step], ours: Recording, theirs: Recording, at: int) -> str:
    """The same for differences that look alike: the method, and what differs of the first line that does."""
    method = steps[at].method if at < len(steps) else "end"
    our, their = ours.answers[at], theirs.answers[at]
    pairs = zip([*our, *[""] * len(their)], [*their, *[""] * len(our)], strict=True)
    first = next((a.split(), b.split()) for a, b in pairs if a != b)
    differing = [word for one, other in (first, first[::-1]) for word in one if word not in other]
    return f"{method}: {' '.join(sorted({re.split('[=/]', word)[0].strip(DIGITS) for word in differing}))}"


SHARED = """
a1 queue.declare(queue='diff-q1', exclusive=True)
a1 publish(routing_key='diff-q1', body='m1')
a1 publish(routing_key='diff-q1', body='m2')
a1 basic.qos(prefetch_count=1, shared=True)
a1 basic.consume(queue='diff-q1', consumer_tag='c1')
a1 basic.consume(queue='diff-q1', consumer_tag='c2')
"""


def shares_prefetch(peer: Player) -> bool:
    """Whether `global` means the channel there, as where RabbitMQ is told to permit it."""
    steps = [parse_step(line) for line in SHARED.splitlines() if line]
    return not any("m2" in line for answer in peer.play("", steps).answers[:-1] for line in answer)


def compare(pair: Pair, profiles: list[str], seeds: range, *, verbose: bool) -> tuple[int, int]:
    """Plays fresh sequences on both; how many agreed and how many did not."""
    seen: Counter[str] = Counter()
    played = 0
    if "shared_prefetch" in profiles and not shares_prefetch(pair.peer):
        print("shared_prefetch: not played, the peer takes it as a prefetch of each consumer", flush=True)
        profiles = [profile for profile in profiles if profile != "shared_prefetch"]
    for seed in seeds:
        for profile in profiles:
            title, steps = f"{profile} {seed}", generate(profile, seed)
            played += 1
            try:
                found = pair.difference_or_again(title, steps)
            except SocketEnded as ended:
                print(f"{title}: not played to its end: {ended}", flush=True)
                pair.undecided += 1
                pair.renew()
                continue
            if found is None:
                continue
            kind = signature(steps, *found)
            seen[kind] += 1
            if seen[kind] > 1:
                print(f"{title}: again {kind}", flush=True)
                continue
            print(f"{title}: {kind}", flush=True)
            try:
                short = shrink(steps[: found[2] + 1], pair.differs)
                tell(title, *(pair.difference(title, short) or found))
            except SocketEnded:
                pair.renew()
                tell(title, *found)
        if verbose and seed % 5 == 0:
            print(f"seed {seed}: {played} played, {seen.total()} differ, {pair.undecided} undecided", flush=True)
    return played - seen.total(), seen.total()


def http_api(url: str | None, control: str | None = None) -> Api | None:
    """The HTTP API, at this address or at the one that the control command tells."""
    if not url and control:
        url = subprocess.run([control, "http"], capture_output=True, text=True, check=True).stdout.strip()
    return Api(url) if url else None


def playable(profiles: list[str], *players: Player | None) -> list[str]:
    """Without those that need an HTTP API, if it is not known where that is."""
    if all(player is None or player.api is not None for player in players):
        return profiles
    for profile in profiles:
        if profile in WITH_POLICIES:
            print(f"{profile}: not played, nobody says where the HTTP API is", flush=True)
    return [profile for profile in profiles if profile not in WITH_POLICIES]


def replay(broker: Player, recordings: Iterator[Recording]) -> tuple[int, int]:
    """Plays recorded sequences; how many were answered as recorded and how many were not."""
    passed = failed = 0
    for recording in recordings:
        ours = broker.play(recording.title, recording.steps)
        if first_difference(ours, recording) is not None:
            ours = broker.play(recording.title, recording.steps, SLOW)
        at = first_difference(ours, recording)
        if at is None:
            passed += 1
        else:
            failed += 1
            tell(recording.title, ours, recording, at)
    return passed, failed


def recorded(profiles: list[str]) -> Iterator[Recording]:
    for file in sorted(paths.RECORDED.glob("*.txt")):
        if file.stem in profiles:
            yield from read_recordings(file.read_text(encoding="utf-8"))


def record(peer: Player, profiles: list[str]) -> None:
    """Keeps of each sequence what the peer answered every time; one that it answers differently is left out."""
    for profile in profiles:
        kept = []
        for seed in RECORDED_SEEDS:
            title, steps = f"{profile} {seed}", generate(profile, seed)
            answers = [peer.play(title, steps, patience) for patience in (QUICK, QUICK, SLOW)]
            if all(each.answers == answers[0].answers for each in answers):
                kept.append(answers[0])
        head = f"# Recorded from {peer.product} by `run --record`; not to be edited.\n\n"
        text = head + "\n".join(write_recording(recording) for recording in kept)
        (paths.RECORDED / f"{profile}.txt").write_text(text, encoding="utf-8")
        print(f"{profile}: {len(kept)} recorded, {len(RECORDED_SEEDS) - len(kept)} left out", flush=True)


def record_found(peer: Player) -> None:
    """The same of sequences that are kept for what they showed; none is left out."""
    file = paths.RECORDED / f"{FOUND}.txt"
    head = f"# Recorded from {peer.product} by `run --record`. To add one, write its title and steps at the end and record.\n"
    head += "# Queues of different types have different names: RabbitMQ's channels mix up what they knew of a name.\n\n"
    kept = [peer.play(title, steps, SLOW) for title, steps in read_sequences(str(file))]
    file.write_text(head + "\n".join(write_recording(recording) for recording in kept), encoding="utf-8")
    print(f"{FOUND}: {len(kept)} recorded", flush=True)


def read_sequences(file: str) -> list[tuple[str, list[Step]]]:
    """Steps out of what the runner prints, or of recordings; answers and comments are passed over."""
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    sequences: list[tuple[str, list[Step]]] = []
    for line in text.splitlines():
        if line.startswith("== "):
            sequences.append((line.removeprefix("== "), []))
        elif line.strip() and not line.startswith((" ", "#", "end")):
            if not sequences:
                sequences.append((file, []))
            sequences[-1][1].append(parse_step(line))
    return sequences


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filter", nargs="?", default="", help="part of a profile's name")
    parser.add_argument("--broker", default=os.environ.get("BROKER_URL"), help="the broker under test (BROKER_URL)")
    parser.add_argument("--peer", default=os.environ.get("PEER_URL"), help="the broker to compare with (PEER_URL)")
    parser.add_argument("--broker-http", default=os.environ.get("BROKER_HTTP_URL"), help="its HTTP API (BROKER_HTTP_URL)")
    parser.add_argument("--peer-http", default=os.environ.get("PEER_HTTP_URL"), help="the same of the peer (PEER_HTTP_URL)")
    parser.add_argument("--user", metavar="NAME:PASSWORD", help="who plays, with rights of its own; the URLs' users look on")
    parser.add_argument("--seeds", help="FIRST-LAST: only fresh sequences of these seeds")
    parser.add_argument("--replay", metavar="FILE", help="only the sequences of this file")
    parser.add_argument("--record", action="store_true", help="write the recordings anew from the peer")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    profiles = [name for name in PROFILES if options.filter in name]
    login = tuple(options.user.split(":", 1)) if options.user else None
    peer = Player(endpoint(options.peer), http_api(options.peer_http), login) if options.peer else None
    if options.record:
        if peer is None:
            sys.exit("differential: --record needs --peer")
        record(peer, playable(profiles, peer))
        if options.filter in FOUND:
            record_found(peer)
        return 0
    if not options.broker:
        sys.exit("differential: no broker; set BROKER_URL or give --broker")
    control = os.environ.get("BROKER_CONTROL") if options.broker == os.environ.get("BROKER_URL") else None
    broker = Player(endpoint(options.broker), http_api(options.broker_http, control), login)
    print(f"broker under test: {broker.product}; peer: {peer.product if peer else 'the recordings'}", flush=True)
    begun = time.monotonic()
    passed = failed = 0
    if options.replay:
        for title, steps in read_sequences(options.replay):
            if peer is None:
                print(write_recording(broker.play(title, steps, SLOW)))
            elif found := Pair(broker, peer).difference(title, steps):
                tell(title, *found)
                failed += 1
            else:
                passed += 1
    else:
        if not options.seeds:
            kept = [FOUND] if options.filter in FOUND else []
            passed, failed = replay(broker, recorded([*playable(profiles, broker), *kept]))
        if peer is not None:
            first, _, last = (options.seeds or f"{FRESH_SEEDS[0]}-{FRESH_SEEDS[-1]}").partition("-")
            seeds = range(int(first), int(last or first) + 1)
            fresh = playable(profiles, broker, peer)
            agreed, differ = compare(Pair(broker, peer), fresh, seeds, verbose=bool(options.seeds))
            passed, failed = passed + agreed, failed + differ
        elif options.seeds:
            sys.exit("differential: --seeds needs --peer")
    summary = f"{passed} passed, {failed} failed, 0 skipped (beyond: 0, not yet: 0)"
    print(f"{summary} in {time.monotonic() - begun:.1f} s")
    if file := os.environ.get("SUMMARY_FILE"):
        Path(file).write_text(summary + "\n", encoding="utf-8")
    return 1 if failed or (not passed and not options.replay) else 0


if __name__ == "__main__":
    sys.exit(main())
