"""A broker of its own that takes access tokens: a Leveret or a RabbitMQ, whichever is tested.

Both are given the same lines of rabbitmq.conf.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess

import pytest

import broker as broker_under_test

from .issuer import AUDIENCE, Issuer

CONFORMANCE = pathlib.Path(__file__).resolve().parents[2]
ORACLE_DIR = pathlib.Path(os.environ.get("LEVERET_ORACLE_DIR", "/opt/rabbitmq-oracle"))
# Beside the port of the RabbitMQ that everybody shares.
ORACLE_PORT = os.environ.get("LEVERET_TOKENS_ORACLE_PORT", "5753")

SETTINGS = f"""
auth_backends.1 = rabbit_auth_backend_oauth2
auth_backends.2 = internal
auth_oauth2.resource_server_id = {AUDIENCE}
auth_oauth2.additional_scopes_key = roles realm.access
auth_oauth2.preferred_username_claims.1 = name
auth_oauth2.preferred_username_claims.2 = sub
auth_oauth2.default_key = key
auth_oauth2.scope_aliases.reader = rabbitmq.read:*/* rabbitmq.configure:*/*
auth_oauth2.scope_aliases.1.alias = api://chief
auth_oauth2.scope_aliases.1.scope = rabbitmq.tag:administrator rabbitmq.read:*/*
auth_oauth2.signing_keys.key = {{public}}
"""


@pytest.fixture(scope="session")
def issuer(tmp_path_factory):
    return Issuer(tmp_path_factory.mktemp("issuer"))


# Of one file: the next file's broker has the same ports.
@pytest.fixture(scope="module")
def tokens_broker(broker, issuer, tmp_path_factory):
    with started(broker, tmp_path_factory.mktemp("tokens-broker"), SETTINGS, public=issuer.public) as own:
        yield own


@contextlib.contextmanager
def started(broker, directory, settings, **files):
    """A broker of its own with these settings, in which names in braces stand for these files."""
    if not broker.is_controlled:
        pytest.skip("not run: needs a broker of its own, and nothing says how to start one")
    environment, copies = dict(os.environ), []
    inside = {name: str(path) for name, path in files.items()}
    if broker.is_rabbitmq:
        control = CONFORMANCE / "oracle"
        for name, path in files.items():
            # The installation has a root of its own.
            copy = ORACLE_DIR / "var/lib" / f"tokens-{ORACLE_PORT}-{name}.pem"
            shutil.copy(path, copy)
            copies.append(copy)
            inside[name] = f"/{copy.relative_to(ORACLE_DIR)}"
        environment |= {"LEVERET_ORACLE_PORT": ORACLE_PORT, "LEVERET_ORACLE_PLUGINS": "rabbitmq_auth_backend_oauth2"}
    else:
        control = CONFORMANCE / "leveret"
        environment |= {"LEVERET_DIR": str(directory / "broker")}
    configuration = directory / "tokens.conf"
    configuration.write_text(settings.format(**inside))
    environment |= {"LEVERET_ORACLE_CONF": str(configuration), "LEVERET_CONFIG": str(configuration)}
    # The control command is asked again later, for the log and the address of the API.
    patch = pytest.MonkeyPatch()
    for name, value in environment.items():
        patch.setenv(name, value)
    limit = broker_under_test.CONTROL_LIMIT_SECS
    done = subprocess.run([control, "start"], stdout=subprocess.PIPE, text=True, timeout=limit, check=False)
    try:
        assert done.returncode == 0, f"{control} start failed"
        yield broker_under_test.Broker(done.stdout.strip(), control=str(control))
    finally:
        subprocess.run([control, "stop"], timeout=limit, check=False)
        if broker.is_rabbitmq:
            subprocess.run([control, "forget"], timeout=limit, check=False)
        for copy in copies:
            copy.unlink()
        patch.undo()
