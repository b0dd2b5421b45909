"""The driver: runs scenarios as processes of their own, and says what held.

    faults.py [--long] [--seed SEED] [--jobs N] [FILTER]
    faults.py --one NAME --seed SEED --scratch DIR [--long]      what the driver itself calls

A scenario is a function of `scenarios/` that is marked with the fault it is about. It is given a [`Case`] and fails by
raising. Everything random in it comes from the seed, which is printed: the same seed repeats its choices, though
not the moments at which threads run.
"""

import argparse
import dataclasses
import importlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from broker import Broker, unmount_below  # noqa: E402

SCENARIOS = {}
SKIPPED = 77
LIMIT_SECS = {False: 120, True: 3600}

# What conformance/run knows as "the filter matches none of these".
NO_SCENARIO_MATCHES = 5


# What needs a broker that is made to fail from within.
TESTED_IN_RUST = {"FM34": "scripts/cargo test -p leveret-runtime -p leveret-server -p leveret-store fm34"}


class Skip(Exception):
    """Cannot be done here; the text says why."""


@dataclasses.dataclass
class Scenario:
    fault: str
    name: str
    run: object
    long_only: bool


def scenario(fault, long_only=False):
    """Marks a scenario with the fault's number in the fault matrix."""

    def mark(function):
        SCENARIOS[f"{fault}_{function.__name__}"] = Scenario(fault, function.__name__, function, long_only)
        return function

    return mark


class Case:
    """What a scenario works with."""

    def __init__(self, scratch, seed, is_long):
        self.scratch = pathlib.Path(scratch)
        self.random = random.Random(seed)
        self.is_long = is_long
        self.brokers = []
        self.notes = []

    def rounds(self, short, long):
        return long if self.is_long else short

    def broker(self, *arguments, directory=None, **options):
        broker = Broker(directory or self.scratch / f"data{len(self.brokers)}", *arguments, **options)
        self.brokers.append(broker)
        return broker

    def keep(self, broker):
        """A broker that was made otherwise is ended with the case."""
        self.brokers.append(broker)
        return broker

    def note(self, text):
        """Shown in the summary."""
        self.notes.append(text)

    def end(self):
        for broker in self.brokers:
            broker.end_quietly()


def load():
    # Scenarios register with this module under its name, also when it runs as a program.
    sys.modules.setdefault("faults", sys.modules[__name__])
    for path in sorted((HERE / "scenarios").glob("*.py")):
        importlib.import_module(f"scenarios.{path.stem}")


def run_one(name, seed, scratch, is_long):
    case = Case(scratch, seed, is_long)
    code, word = 0, ""
    try:
        SCENARIOS[name].run(case)
    except Skip as reason:
        code, word = SKIPPED, str(reason)
    except BaseException:
        code = 1
        traceback.print_exc()
        for broker in case.brokers:
            if broker.log.exists():
                print(f"--- last lines of {broker.log}\n{broker.tail()}", file=sys.stderr)
    finally:
        case.end()
    print("; ".join([word, *case.notes] if word else case.notes))
    return code


@dataclasses.dataclass
class Running:
    name: str
    process: subprocess.Popen
    scratch: str
    began: float
    errors: object


def run_all(names, seed, is_long, jobs):
    """Starts up to `jobs` scenarios at once; gives (name, outcome, seconds, note) of each."""
    waiting, running, results = list(names), [], []
    while waiting or running:
        while waiting and len(running) < jobs:
            name = waiting.pop(0)
            scratch = tempfile.mkdtemp(prefix=f"leveret-{name[:24]}-")
            errors = tempfile.TemporaryFile("w+")
            command = [sys.executable, __file__, "--one", name, "--seed", f"{seed}", "--scratch", scratch]
            process = subprocess.Popen(
                command + ["--long"] * is_long, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
            running.append(Running(name, process, scratch, time.monotonic(), errors))
        for one in list(running):
            took = time.monotonic() - one.began
            is_late = took > LIMIT_SECS[is_long]
            if one.process.poll() is None and not is_late:
                continue
            if one.process.poll() is None:
                # Its session: the scenario and the brokers it started.
                os.killpg(one.process.pid, 9)
            note = one.process.communicate()[0].strip()
            running.remove(one)
            outcome = {0: "held", SKIPPED: "skipped"}.get(one.process.returncode, "FAILED")
            results.append((one.name, outcome, took, note if not is_late else f"stopped after {took:.0f} s"))
            print(f"{outcome:8}{one.name:58}{took:6.1f} s  {results[-1][3]}", flush=True)
            if outcome == "FAILED":
                one.errors.seek(0)
                print(one.errors.read(), flush=True)
            unmount_below(one.scratch)
            shutil.rmtree(one.scratch, ignore_errors=True)
        time.sleep(0.05)
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", default=os.environ.get("FAULTS_SEED") or str(random.randrange(1 << 32)))
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("FAULTS_JOBS", "2")))
    parser.add_argument("--one")
    parser.add_argument("--scratch")
    parser.add_argument("filter", nargs="?", default="")
    arguments = parser.parse_args()
    load()
    if arguments.one:
        sys.exit(run_one(arguments.one, f"{arguments.seed}:{arguments.one}", arguments.scratch, arguments.long))

    names = [name for name, each in SCENARIOS.items() if arguments.filter in name]
    if not names and arguments.filter in TESTED_IN_RUST:
        print(f"faults: {arguments.filter} is shown by: {TESTED_IN_RUST[arguments.filter]}")
    if not names:
        print(f"faults: no scenario has {arguments.filter!r} in its name", file=sys.stderr)
        sys.exit(NO_SCENARIO_MATCHES)
    foreign = pathlib.Path(os.environ.get("BROKER_CONTROL") or "leveret").name != "leveret"
    if foreign or (os.environ.get("BROKER_URL") and not os.environ.get("BROKER_CONTROL")):
        print("faults: these scenarios start brokers of their own, which have to be Leverets: all are skipped")
        results = [(name, "beyond", 0.0, "") for name in names]
    else:
        if not os.environ.get("LEVERET_BIN"):
            sys.exit("faults: LEVERET_BIN names no program; conformance/run builds one")
        print(f"faults: seed {arguments.seed}, {'long' if arguments.long else 'short'} form", flush=True)
        chosen = [name for name in names if arguments.long or not SCENARIOS[name].long_only]
        results = run_all(chosen, arguments.seed, arguments.long, arguments.jobs)
        if not results:
            sys.exit("faults: all of these belong to the long form")
    outcomes = [outcome for _, outcome, _, _ in results]
    held, failed = outcomes.count("held"), outcomes.count("FAILED")
    skipped = len(outcomes) - held - failed
    if arguments.long:
        print("\n| fault | scenario | outcome | seconds | |\n| --- | --- | --- | --- | --- |")
        for name, outcome, took, note in sorted(results, key=lambda one: int(one[0][2:].split("_")[0])):
            fault, _, title = name.partition("_")
            print(f"| {fault} | {title.replace('_', ' ')} | {outcome} | {took:.1f} | {note} |")
    line = f"{held} passed, {failed} failed, {skipped} skipped (beyond: {outcomes.count('beyond')}, not yet: 0)"
    if summary := os.environ.get("SUMMARY_FILE"):
        pathlib.Path(summary).write_text(line + "\n", encoding="utf-8")
    else:
        print(line)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
