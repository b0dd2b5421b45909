"""The driver: runs scenarios one after the other, each with brokers of its own, and says what held.

    hostile.py [--long] [FILTER]

A scenario is a function of `scenarios/` whose name begins with the number of its line in the security checklist
(`sc12_...`, docs/security.md lists them; `a10_...` for TLS, `a11_...` for listeners). It is given a [`Case`] and fails by raising. A broker that panicked, or is down
when nobody ended it, has failed whatever the scenario saw.
"""

import argparse
import importlib
import os
import pathlib
import shutil
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "faults"), str(HERE.parent / "python")]

from broker import Broker  # noqa: E402

# What conformance/run knows as "the filter matches none of these".
NO_SCENARIO_MATCHES = 5


class Skip(Exception):
    """Cannot be done here; the text says why."""


class HostileBroker(Broker):
    """A broker with its HTTP API, and what it logged."""

    @property
    def ports(self):
        import json

        return json.loads(self.ports_file.read_text())

    @property
    def pid(self):
        # Wrappers used here become the broker.
        return self.process.pid

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def logged(self):
        return self.log.read_text(errors="replace")


class Case:
    """What a scenario works with."""

    def __init__(self, scratch, is_long):
        self.scratch = pathlib.Path(scratch)
        self.is_long = is_long
        self.brokers = []
        self.notes = []

    def many(self, short, long):
        return long if self.is_long else short

    def broker(self, *arguments, **options):
        directory = self.scratch / f"data{len(self.brokers)}"
        broker = HostileBroker(directory, "--http-listen", "127.0.0.1:0", *arguments, **options)
        self.brokers.append(broker)
        return broker.start(limit=20)

    def note(self, text):
        """Shown in the summary."""
        self.notes.append(text)

    def skip(self, text):
        raise Skip(f"not run: {text}")

    def check_brokers(self):
        for broker in self.brokers:
            assert "panicked at" not in broker.logged(), "the broker panicked"
            assert broker.process.poll() is None, f"the broker ended with {broker.process.returncode}"

    def end(self):
        for broker in self.brokers:
            broker.end_quietly()


def scenarios():
    found = {}
    for path in sorted((HERE / "scenarios").glob("*.py")):
        module = importlib.import_module(f"scenarios.{path.stem}")
        found.update({name: each for name, each in vars(module).items() if name.startswith(("sc", "a1")) and callable(each)})
    return dict(sorted(found.items()))


def run_one(scenario, is_long):
    """Outcome and note."""
    case = Case(tempfile.mkdtemp(prefix="leveret-hostile-"), is_long)
    try:
        scenario(case)
        case.check_brokers()
        return "held", "; ".join(case.notes)
    except Skip as reason:
        return "skipped", str(reason)
    except Exception:
        traceback.print_exc()
        for broker in case.brokers:
            if broker.log.exists():
                print(f"--- last lines of {broker.log}\n{broker.tail()}", file=sys.stderr)
        return "FAILED", "; ".join(case.notes)
    finally:
        case.end()
        shutil.rmtree(case.scratch, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("filter", nargs="?", default="")
    arguments = parser.parse_args()
    chosen = {name: each for name, each in scenarios().items() if arguments.filter in name}
    if not chosen:
        print(f"hostile: no scenario has {arguments.filter!r} in its name", file=sys.stderr)
        sys.exit(NO_SCENARIO_MATCHES)
    control = os.environ.get("BROKER_CONTROL", "")
    is_foreign = pathlib.Path(control or "leveret").name != "leveret" or (os.environ.get("BROKER_URL") and not control)
    outcomes = []
    if is_foreign:
        print("hostile: these scenarios start brokers of their own, which have to be Leverets: all are skipped")
        outcomes = ["beyond"] * len(chosen)
    elif not os.environ.get("LEVERET_BIN"):
        sys.exit("hostile: LEVERET_BIN names no program; conformance/run builds one")
    else:
        for name, scenario in chosen.items():
            began = time.monotonic()
            outcome, note = run_one(scenario, arguments.long)
            outcomes.append(outcome)
            print(f"{outcome:8}{name:70}{time.monotonic() - began:6.1f} s  {note}", flush=True)
    held, failed = outcomes.count("held"), outcomes.count("FAILED")
    skipped = len(outcomes) - held - failed
    line = f"{held} passed, {failed} failed, {skipped} skipped (beyond: {outcomes.count('beyond')}, not yet: 0)"
    if summary := os.environ.get("SUMMARY_FILE"):
        pathlib.Path(summary).write_text(line + "\n", encoding="utf-8")
    else:
        print(line)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    # Scenarios import this module under its name, also when it runs as a program.
    sys.modules["hostile"] = sys.modules["__main__"]
    main()
