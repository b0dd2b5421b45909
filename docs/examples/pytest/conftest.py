"""A broker for the whole run of pytest."""

import json
import os
import subprocess

import pytest

LEVERET = os.environ.get("LEVERET", "leveret")


@pytest.fixture(scope="session")
def broker_url():
    command = [LEVERET, "--storage", "memory", "--listen", "127.0.0.1:0", "--log-level", "warn"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        # One line, once clients are accepted: {"amqp":[43671]}
        port = json.loads(broker.stdout.readline())["amqp"][0]
        yield f"amqp://guest:guest@127.0.0.1:{port}"
        broker.terminate()
