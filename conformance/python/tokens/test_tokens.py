"""OAuth 2: what a broker makes of access tokens, and when it ends with them."""

import hashlib
import hmac
import json
import re
import time
import uuid

import pika
import pika.spec
import pytest

from .client import Client
from .issuer import Issuer, encoded

ALL = ("rabbitmq.configure:*/*", "rabbitmq.write:*/*", "rabbitmq.read:*/*")


@pytest.fixture
def client(tokens_broker):
    client = Client(tokens_broker)
    yield client
    for connection in client.open:
        if connection.is_open:
            connection.close()


def name():
    return f"tokens-{uuid.uuid4().hex[:12]}"


def refused(channel, method, *arguments, **options):
    """The code and text with which a method's channel is closed."""
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        getattr(channel, method)(*arguments, **options)
    return closed.value.reply_code, closed.value.reply_text


def update_secret(connection, token, reason="a newer one"):
    """connection.update-secret, which pika has no call for; the answer or the close."""
    impl = connection._impl
    answers = []
    update = pika.spec.Connection.UpdateSecret(token, reason)
    impl.callbacks.add(0, pika.spec.Connection.UpdateSecretOk, lambda frame: answers.append(frame.method))
    impl._send_method(0, update)
    deadline = time.monotonic() + 10
    while not answers and time.monotonic() < deadline:
        connection.process_data_events(time_limit=0.1)
    assert answers, "no answer to update-secret"


def test_a_token_is_the_password_and_says_who_comes(client, issuer):
    queue = name()
    channel = client.connect(issuer.token(*ALL), user="somebody").channel()
    channel.queue_declare(queue, exclusive=True)
    properties = pika.BasicProperties(user_id="alice")
    channel.basic_publish("", queue, b"x", properties)
    assert channel.basic_get(queue, auto_ack=True)[2] == b"x"
    channel.confirm_delivery()
    properties = pika.BasicProperties(user_id="somebody")
    text = "PRECONDITION_FAILED - user_id property set to 'somebody' but authenticated user was 'alice'"
    assert refused(channel, "basic_publish", "", queue, b"x", properties) == (406, text)


def test_users_of_the_broker_log_in_beside(client):
    assert client.is_let_in("guest", user="guest")
    assert not client.is_let_in("wrong", user="guest")
    assert not client.is_let_in("", user="guest")


def test_a_claim_names_the_user(client, issuer):
    tags = ("rabbitmq.tag:management",)
    for claims, expected in [
        ({"name": "first"}, "first"),
        ({"name": None}, "alice"),
        ({"name": 1}, "alice"),
        ({"sub": None}, "unknown"),
    ]:
        told = client.http("whoami", issuer.token(*tags, **claims)).json()
        assert told["name"] == expected, claims


def test_scopes_are_rights_on_names(client, issuer):
    mine, other = name(), name()
    connection = client.connect(issuer.token(f"rabbitmq.configure:*/{mine}*", f"rabbitmq.read:%2F/{mine}"))
    connection.channel().queue_declare(mine, auto_delete=True, exclusive=True)
    text = f"ACCESS_REFUSED - configure access to queue '{other}' in vhost '/' refused for user 'alice'"
    assert refused(connection.channel(), "queue_declare", other) == (403, text)
    assert connection.channel().basic_get(mine) == (None, None, None)
    text = f"ACCESS_REFUSED - read access to queue '{other}' in vhost '/' refused for user 'alice'"
    assert refused(connection.channel(), "basic_get", other) == (403, text)
    channel = connection.channel()
    channel.confirm_delivery()
    text = "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'alice'"
    assert refused(channel, "basic_publish", "", mine, b"x") == (403, text)


def test_keys_of_topic_exchanges_need_a_scope_that_speaks_of_them(client, issuer):
    scopes = ["rabbitmq.write:*/amq.topic", "rabbitmq.write:*/*/ok.*", *ALL]
    channel = client.connect(issuer.token(*scopes)).channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "ok.1", b"x")
    text = (
        "ACCESS_REFUSED - write access to topic 'no.1' in exchange 'amq.topic' in vhost '/' refused for user 'alice'"
    )
    assert refused(channel, "basic_publish", "amq.topic", "no.1", b"x") == (403, text)


@pytest.mark.parametrize(
    ("pattern", "queue", "may"),
    [
        ("*", "any", True),
        ("a*", "abc", True),
        ("*c", "abc", True),
        ("a*c", "abbc", True),
        ("a%2Fb", "a/b", True),
        ("a%2Ab", "a*b", True),
        ("a+b", "a b", True),
        ("*a", "aba", False),
        ("a", "ab", False),
        ("a%2Ab", "axb", False),
        ("%zz", "%zz", False),
        ("{sub}-*", "alice-1", True),
        ("{sub}-*", "bob-1", False),
        ("{other}", "other", True),
    ],
)
def test_patterns_of_scopes(client, issuer, pattern, queue, may):
    channel = client.connect(issuer.token(f"rabbitmq.configure:*/{pattern}")).channel()
    if may:
        channel.queue_declare(queue, exclusive=True)
    else:
        assert refused(channel, "queue_declare", queue, exclusive=True)[0] == 403


def test_a_vhost_without_a_scope_is_closed(client, issuer):
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as refused:
        client.connect(issuer.token("rabbitmq.read:other/*"))
    assert "(530) \"NOT_ALLOWED - access to vhost '/' refused for user 'alice'\"" in str(refused.value)


def test_scopes_stand_in_other_claims_and_behind_aliases(client, issuer):
    everything = {"scope": None}
    for claims in [
        everything | {"scope": " ".join(ALL)},
        everything | {"roles": list(ALL)},
        everything | {"roles": " ".join(ALL)},
        everything | {"realm": {"access": list(ALL)}},
        everything | {"realm": [{"access": "x"}, {"access": list(ALL)}]},
        everything | {"roles": {"rabbitmq": ["configure:*/*"]}},
        everything | {"authorization": {"permissions": [{"scopes": list(ALL)}]}},
        {"scope": ["reader"]},
    ]:
        channel = client.connect(issuer.token(**claims)).channel()
        channel.queue_declare(name(), exclusive=True)
    told = client.http("whoami", issuer.token("api://chief")).json()
    assert told["tags"] == ["administrator"]


def test_who_comes_with_no_good_token_is_refused(client, issuer, tmp_path):
    other = Issuer(tmp_path)
    good = issuer.token(*ALL)
    head, claims, signature = good.split(".")
    root = encoded(json.dumps({"aud": "rabbitmq", "sub": "root", "exp": 4_000_000_000, "scope": list(ALL)}).encode())
    refused = {
        "of somebody else": other.token(*ALL),
        "with changed claims": f"{head}.{root.decode()}.{signature}",
        "without a signature": f"{head}.{claims}.",
        "with two parts": f"{head}.{claims}",
        "for somebody else": issuer.token(*ALL, aud="other"),
        "for nobody": issuer.token(*ALL, aud=None),
        "of an unknown key": issuer.token(*ALL, header={"kid": "unknown"}),
        "that has ended": issuer.token(*ALL, seconds=-1),
        "that never ends": issuer.token(*ALL, exp=None),
        "with an end that is a text": issuer.token(*ALL, exp="4000000000"),
    }
    for what, token in refused.items():
        assert not client.is_let_in(token), what
    assert client.is_let_in(good)
    assert client.is_let_in(issuer.token(*ALL, header={"kid": None})), "the default key"
    assert client.is_let_in(issuer.token(*ALL, aud=["other", "rabbitmq"]))


def test_no_algorithm_none_and_no_public_key_as_a_secret(client, issuer):
    claims = {"aud": "rabbitmq", "sub": "alice", "exp": int(time.time()) + 300, "scope": list(ALL)}
    header = {"alg": "none", "kid": "key", "typ": "JWT"}
    assert not client.is_let_in(issuer.signed(header, claims, sign=lambda data: b""))
    for algorithm, kind in [("HS256", hashlib.sha256), ("HS384", hashlib.sha384), ("HS512", hashlib.sha512)]:
        header["alg"] = algorithm
        public = issuer.public.read_bytes()
        for secret in (public, public.strip()):
            token = issuer.signed(header, claims, sign=lambda data, s=secret, k=kind: hmac.new(s, data, k).digest())
            assert not client.is_let_in(token), algorithm
            assert client.http("whoami", token).status_code == 401


def test_http_takes_tokens_as_bearer_and_as_password(client, issuer):
    token = issuer.token("rabbitmq.tag:administrator", *ALL)
    assert client.http("whoami", token).json()["tags"] == ["administrator"]
    assert client.http("whoami", auth=("anybody", token)).json()["name"] == "alice"
    assert client.http("users", token).status_code == 200
    assert client.http("whoami", auth=("guest", "guest")).json()["name"] == "guest"
    assert client.http("whoami", issuer.token(*ALL)).status_code == 401
    assert client.http("whoami", "x.y.z").status_code == 401
    assert client.http("whoami", issuer.token("rabbitmq.tag:administrator", seconds=-1)).status_code == 401
    manager = issuer.token("rabbitmq.tag:management", "rabbitmq.configure:*/mine*")
    assert client.http("users", manager).status_code == 401
    assert [vhost["name"] for vhost in client.http("vhosts", manager).json()] == ["/"]
    elsewhere = issuer.token("rabbitmq.tag:management", "rabbitmq.configure:other/*")
    assert client.http("vhosts", elsewhere).json() == []


def test_sc37_a_connection_ends_with_its_token(client, issuer):
    began = time.time()
    connection = client.connect(issuer.token(*ALL, seconds=3))
    connection.channel().queue_declare(name(), exclusive=True)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        while time.time() < began + 20:
            connection.process_data_events(time_limit=0.2)
    text = "CONNECTION_FORCED - credential expired"
    assert (closed.value.reply_code, closed.value.reply_text) == (320, text)
    assert time.time() - began >= 2


def test_sc37_a_new_secret_keeps_the_connection_and_changes_its_rights(client, issuer):
    first, second = name(), name()
    began = time.time()
    connection = client.connect(issuer.token(*ALL, "rabbitmq.tag:impersonator", seconds=4))
    channel = connection.channel()
    for queue in (first, second):
        channel.queue_declare(queue, exclusive=True)
    cancelled = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    channel.basic_consume(first, lambda *_: None, consumer_tag="stays")
    channel.basic_consume(second, lambda *_: None, consumer_tag="goes")
    channel.basic_publish("", "nowhere", b"x", pika.BasicProperties(user_id="anybody"))
    scopes = [f"rabbitmq.read:*/{first}", "rabbitmq.write:*/*"]
    update_secret(connection, issuer.token(*scopes, seconds=600))
    deadline = time.monotonic() + 10
    while not cancelled and time.monotonic() < deadline:
        connection.process_data_events(time_limit=0.1)
    assert cancelled == ["goes"]
    text = f"ACCESS_REFUSED - configure access to queue '{first}' in vhost '/' refused for user 'alice'"
    assert refused(connection.channel(), "queue_declare", first, exclusive=True) == (403, text)
    # The tag is gone with the old token.
    forger = connection.channel()
    forger.confirm_delivery()
    assert refused(forger, "basic_publish", "", "x", b"x", pika.BasicProperties(user_id="anybody"))[0] == 406
    while time.time() < began + 6:
        connection.process_data_events(time_limit=0.2)
    assert connection.is_open


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("garbage", "NOT_ALLOWED - Secret update failed"),
        ("for somebody else", "NOT_ALLOWED - Secret update failed"),
        ("of another user", "NOT_ALLOWED - New secret was refused by one of the backends"),
        ("of another issuer", "NOT_ALLOWED - New secret was refused by one of the backends"),
        ("for another vhost", "NOT_ALLOWED - access to vhost '/' refused for user 'alice'"),
        (
            "that has ended",
            r"NOT_ALLOWED - access to vhost '/' refused for user 'alice', backend rabbit_auth_backend_oauth2 "
            r'returned an error: "Provided JWT token has expired at timestamp \d+ \(validated at \d+\)"',
        ),
    ],
)
def test_a_bad_new_secret_ends_the_connection(client, issuer, tmp_path, what, text):
    secret = {
        "garbage": lambda: "x",
        "for somebody else": lambda: issuer.token(*ALL, aud="other"),
        "of another user": lambda: issuer.token(*ALL, sub="bob"),
        "of another issuer": lambda: Issuer(tmp_path).token(*ALL),
        "for another vhost": lambda: issuer.token("rabbitmq.read:other/*"),
        "that has ended": lambda: issuer.token(*ALL, seconds=-10),
    }[what]()
    connection = client.connect(issuer.token(*ALL))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        update_secret(connection, secret)
    assert closed.value.reply_code == 530
    assert re.fullmatch(text if "\\" in text else re.escape(text), closed.value.reply_text), closed.value.reply_text


def test_a_new_secret_of_who_came_with_a_password_changes_nothing(client):
    connection = client.connect("guest", user="guest")
    update_secret(connection, "anything")
    connection.channel().queue_declare(name(), exclusive=True)


def test_no_token_is_in_the_log(client, issuer, tokens_broker):
    good, bad = issuer.token(*ALL), issuer.token(*ALL, aud="other")
    assert client.is_let_in(good)
    assert not client.is_let_in(bad)
    client.http("whoami", good)
    client.http("whoami", bad)
    connection = client.connect(good)
    update_secret(connection, issuer.token(*ALL))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        update_secret(connection, bad)
    log = tokens_broker.log.read_text(errors="replace")
    for token in (good, bad):
        assert not [part for part in token.split(".")[1:] if part in log]
