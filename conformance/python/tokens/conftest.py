"""A broker of its own that takes access tokens: a Leveret or a RabbitMQ, whichever is tested.

Both are given the same lines of rabbitmq.conf.
"""

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


@pytest.fixture(scope="session")
def tokens_broker(broker, issuer, tmp_path_factory):
    if not broker.is_controlled:
        pytest.skip("not run: needs a broker of its own, and nothing says how to start one")
    directory = tmp_path_factory.mktemp("tokens-broker")
    public, environment = issuer.public, dict(os.environ)
    if broker.is_rabbitmq:
        control = CONFORMANCE / "oracle"
        public = ORACLE_DIR / "var/lib" / f"token-key-{ORACLE_PORT}.pem"
        shutil.copy(issuer.public, public)
        inside = f"/{public.relative_to(ORACLE_DIR)}"
        environment |= {"LEVERET_ORACLE_PORT": ORACLE_PORT, "LEVERET_ORACLE_PLUGINS": "rabbitmq_auth_backend_oauth2"}
    else:
        control, inside = CONFORMANCE / "leveret", str(public)
        environment |= {"LEVERET_DIR": str(directory / "broker")}
    settings = directory / "tokens.conf"
    settings.write_text(SETTINGS.format(public=inside))
    environment |= {"LEVERET_ORACLE_CONF": str(settings), "LEVERET_CONFIG": str(settings)}
    # The control command is asked again later, for the log and the address of the API.
    patch = pytest.MonkeyPatch()
    for name, value in environment.items():
        patch.setenv(name, value)
    limit = broker_under_test.CONTROL_LIMIT_SECS
    started = subprocess.run([control, "start"], stdout=subprocess.PIPE, text=True, timeout=limit, check=False)
    try:
        assert started.returncode == 0, f"{control} start failed"
        yield broker_under_test.Broker(started.stdout.strip(), control=str(control))
    finally:
        subprocess.run([control, "stop"], timeout=limit, check=False)
        if broker.is_rabbitmq:
            subprocess.run([control, "forget"], timeout=limit, check=False)
            public.unlink()
        patch.undo()
