"""OAuth 2 with keys that issuers publish over HTTPS, as almost everybody has it."""

import threading
import time

import pika
import pytest

from .client import Client
from .conftest import started
from .issuer import Issuer
from .publisher import Authority, Site, set_of

# One that is found by what it says of itself, one whose keys have an address, and two that nobody should believe: with
# the certificate of another authority, and with one for another name.
SETTINGS = """
auth_backends.1 = oauth2
auth_backends.2 = internal
auth_oauth2.resource_server_id = rabbitmq
auth_oauth2.issuer = {realm}
auth_oauth2.discovery_endpoint_params.appid = one two
auth_oauth2.https.cacertfile = {{authority}}
auth_oauth2.https.hostname_verification = wildcard
auth_oauth2.oauth_providers.second.jwks_uri = {second}
auth_oauth2.oauth_providers.second.https.cacertfile = {{authority}}
auth_oauth2.oauth_providers.second.https.verify = verify_peer
auth_oauth2.oauth_providers.stranger.jwks_uri = {stranger}
auth_oauth2.oauth_providers.stranger.https.cacertfile = {{authority}}
auth_oauth2.oauth_providers.misnamed.jwks_uri = {misnamed}
auth_oauth2.oauth_providers.misnamed.https.cacertfile = {{authority}}
auth_oauth2.oauth_providers.misnamed.https.hostname_verification = wildcard
auth_oauth2.resource_servers.1.id = second
auth_oauth2.resource_servers.1.oauth_provider_id = second
auth_oauth2.resource_servers.1.preferred_username_claims.1 = login
auth_oauth2.resource_servers.1.scope_aliases.chief = second.tag:administrator second.read:*/*
auth_oauth2.resource_servers.2.id = stranger
auth_oauth2.resource_servers.2.oauth_provider_id = stranger
auth_oauth2.resource_servers.3.id = misnamed
auth_oauth2.resource_servers.3.oauth_provider_id = misnamed
"""

# A provider need not be asked twice within some seconds.
PATIENCE_SECS = 20


class Published:
    """The issuers, and where they publish their keys."""

    def __init__(self, directory):
        for part in ("ours", "theirs"):
            (directory / part).mkdir()
        self.authority = Authority(directory / "ours")
        self.site = Site(*self.authority.issue("localhost"))
        self.strange_site = Site(*Authority(directory / "theirs").issue("localhost"))
        self.main, self.second, self.evil = (Issuer(directory, name) for name in ("main", "second", "evil"))
        document = {"issuer": self.site.url("/realms/main"), "jwks_uri": self.site.url("/realms/main/keys")}
        self.site.put("/realms/main/.well-known/openid-configuration", document)
        self.site.put("/realms/main/keys", set_of(self.main))
        self.site.put("/second/keys", set_of(self.second))
        self.site.put("/misnamed/keys", set_of(self.evil))
        self.strange_site.put("/keys", set_of(self.evil))

    def settings(self):
        return SETTINGS.format(
            realm=self.site.url("/realms/main"),
            second=self.site.url("/second/keys"),
            stranger=self.strange_site.url("/keys"),
            misnamed=self.site.url("/misnamed/keys", host="127.0.0.1"),
        )


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    published = Published(tmp_path_factory.mktemp("published"))
    yield published
    published.site.stop()
    published.strange_site.stop()


@pytest.fixture(scope="module")
def publishing_broker(broker, published, tmp_path_factory):
    directory = tmp_path_factory.mktemp("publishing-broker")
    with started(broker, directory, published.settings(), authority=published.authority.certificate) as own:
        yield own


@pytest.fixture
def client(publishing_broker):
    client = Client(publishing_broker)
    yield client
    for connection in client.open:
        if connection.is_open:
            connection.close()


def scopes(server):
    return [f"{server}.{right}:*/*" for right in ("configure", "write", "read")]


def of_second(issuer, **claims):
    return issuer.token(*scopes("second"), aud="second", **claims)


def is_let_in_at_last(client, token):
    """Keys that are new are known some seconds later."""
    deadline = time.monotonic() + PATIENCE_SECS
    while not client.is_let_in(token):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def test_keys_are_where_the_issuer_says(client, published):
    assert is_let_in_at_last(client, published.main.token(*scopes("rabbitmq")))
    assert "/realms/main/.well-known/openid-configuration?appid=one+two" in published.site.asked
    assert "/realms/main/keys" in published.site.asked


def test_each_resource_server_has_its_provider_its_claims_and_its_scopes(client, published):
    assert is_let_in_at_last(client, of_second(published.second))
    token = published.second.token("chief", aud="second", login="somebody")
    told = client.http("whoami", token).json()
    assert (told["name"], told["tags"]) == ("somebody", ["administrator"])
    assert not client.is_let_in(of_second(published.main)), "signed by the provider of another one"
    assert not client.is_let_in(published.second.token(*scopes("rabbitmq"))), "the same the other way round"
    assert not client.is_let_in(published.second.token(*scopes("second"), aud=["rabbitmq", "second"])), "for both"


@pytest.mark.parametrize("server", ["stranger", "misnamed"])
def test_who_publishes_keys_must_be_who_they_say(client, published, server):
    asked = (list(published.strange_site.asked), published.site.asked.count("/misnamed/keys"))
    assert not client.is_let_in(published.evil.token(*scopes(server), aud=server))
    assert (published.strange_site.asked, published.site.asked.count("/misnamed/keys")) == asked, "the key was asked for"


def test_a_key_that_was_replaced_is_good_no_more(client, published, tmp_path):
    next_one = Issuer(tmp_path, "next")
    assert is_let_in_at_last(client, of_second(published.second))
    published.site.put("/second/keys", set_of(next_one))
    try:
        assert is_let_in_at_last(client, of_second(next_one))
        assert not client.is_let_in(of_second(published.second))
    finally:
        published.site.put("/second/keys", set_of(published.second))
        assert is_let_in_at_last(client, of_second(published.second))


def test_keys_stay_when_the_issuer_has_none_to_tell(client, published, tmp_path):
    unknown = of_second(Issuer(tmp_path, "unknown"))
    assert is_let_in_at_last(client, of_second(published.second))
    try:
        published.site.put("/second/keys", {"error": "out of order"}, status=503)
        assert not client.is_let_in(unknown)
        assert client.is_let_in(of_second(published.second))
    finally:
        published.site.put("/second/keys", set_of(published.second))


def test_sc53_nothing_is_fetched_that_a_token_names(client, published):
    named = {
        "jku": published.site.url("/evil/keys"),
        "x5u": published.site.url("/evil/certificate"),
        "jwk": set_of(published.evil)["keys"][0],
    }
    claims = {"iss": published.site.url("/evil")}
    published.site.put("/evil/keys", set_of(published.evil))
    token = published.evil.token(*scopes("rabbitmq"), header=named, **claims)
    assert not client.is_let_in(token)
    assert not [path for path in published.site.asked if path.startswith("/evil")]


def test_others_log_in_while_an_issuer_does_not_answer(client, published, publishing_broker, tmp_path):
    main = published.main.token(*scopes("rabbitmq"))
    assert is_let_in_at_last(client, main)
    unknown = of_second(Issuer(tmp_path, "nobody"))
    waiting = []

    def wait():
        """Refused at last, or hung up on."""
        try:
            Client(publishing_broker).connect(unknown)
        except pika.exceptions.AMQPError as reason:
            waiting.append(reason)

    deadline = time.monotonic() + PATIENCE_SECS
    before = published.site.asked.count("/second/keys")
    published.site.may_answer.clear()
    logins = []
    try:
        # Until one of them makes the broker ask.
        while published.site.asked.count("/second/keys") == before:
            assert time.monotonic() < deadline, "nobody was asked"
            if logins:
                # A thousand refusals within a minute, and nobody from here is listened to.
                time.sleep(0.2)
            logins.append(threading.Thread(target=wait))
            logins[-1].start()
            logins[-1].join(1)
        began = time.monotonic()
        assert client.is_let_in("guest", user="guest")
        assert client.is_let_in(main)
        assert client.http("whoami", auth=("guest", "guest")).status_code == 200
        assert time.monotonic() - began < 3
    finally:
        published.site.may_answer.set()
        for login in logins:
            login.join(PATIENCE_SECS)
    assert len(waiting) == len(logins)
