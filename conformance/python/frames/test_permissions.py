"""Who may do what: permissions per vhost, topic permissions, limits, and what happens to connections when they change."""

import ast
import contextlib
import re
import uuid

import pika
import pytest

PASSWORD = "secret"


class Somebody:
    """A user of one's own, with or without rights in a vhost."""

    def __init__(self, broker, api, vhost):
        self.broker = broker
        self.api = api
        self.vhost = vhost
        self.name = f"conformance-{uuid.uuid4()}"
        self.tags("")

    def tags(self, tags):
        assert self.api.put(f"users/{self.name}", {"password": PASSWORD, "tags": tags}).status in (201, 204)

    def may(self, configure="", write="", read=""):
        rights = {"configure": configure, "write": write, "read": read}
        assert self.api.put(f"permissions/{self.vhost}/{self.name}", rights).status in (201, 204)

    def may_use_topics(self, exchange, write, read):
        rights = {"exchange": exchange, "write": write, "read": read}
        assert self.api.put(f"topic-permissions/{self.vhost}/{self.name}", rights).status in (201, 204)

    @contextlib.contextmanager
    def connected(self):
        parameters = pika.ConnectionParameters(
            self.broker.host,
            self.broker.port,
            self.vhost,
            pika.PlainCredentials(self.name, PASSWORD),
            socket_timeout=5,
            blocked_connection_timeout=10,
        )
        connection = pika.BlockingConnection(parameters)
        try:
            yield connection
        finally:
            with contextlib.suppress(pika.exceptions.AMQPError):
                connection.close()

    def refused(self, operation):
        """What a new channel is closed with when it does this."""
        with self.connected() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
                operation(channel)
            return closed.value.reply_code, closed.value.reply_text

    def does(self, operation):
        with self.connected() as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            operation(channel)

    def cannot_open(self):
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as refused, self.connected():
            pass
        # pika keeps the close it got as text only.
        code, text = re.search(r"\((\d+)\) (['\"].*['\"])$", str(refused.value)).groups()
        return int(code), ast.literal_eval(text)

    def access_refused(self, what):
        return 403, f"ACCESS_REFUSED - {what} in vhost '{self.vhost}' refused for user '{self.name}'"


@pytest.fixture
def somebody(broker, api, vhost):
    somebody = Somebody(broker, api, vhost)
    yield somebody
    api.delete(f"users/{somebody.name}")


@pytest.fixture
def admin(broker, api, vhost):
    """A channel in the same vhost that may do everything."""
    parameters = pika.ConnectionParameters(
        broker.host, broker.port, vhost, pika.PlainCredentials(api.user, api.password), socket_timeout=5
    )
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    if connection.is_open:
        connection.close()


def test_without_a_permission_the_vhost_is_closed(somebody):
    text = f"NOT_ALLOWED - access to vhost '{somebody.vhost}' refused for user '{somebody.name}'"
    assert somebody.cannot_open() == (530, text)


def test_a_missing_vhost_is_said_to_be_missing(somebody):
    somebody.vhost = "conformance-nowhere"
    assert somebody.cannot_open() == (530, "NOT_ALLOWED - vhost conformance-nowhere not found")


CONFIGURE_ONLY = {
    "queue.declare": (lambda c: c.queue_declare("no-q"), "configure access to queue 'no-q'"),
    "queue.delete": (lambda c: c.queue_delete("no-q"), "configure access to queue 'no-q'"),
    "exchange.declare": (lambda c: c.exchange_declare("no-x"), "configure access to exchange 'no-x'"),
    "exchange.delete": (lambda c: c.exchange_delete("no-x"), "configure access to exchange 'no-x'"),
    "passive queue.declare": (lambda c: c.queue_declare("none", passive=True), "configure access to queue 'none'"),
    "passive exchange.declare": (
        lambda c: c.exchange_declare("none", passive=True),
        "configure access to exchange 'none'",
    ),
    "queue.bind": (lambda c: c.queue_bind("c-q", "amq.direct", "k"), "write access to queue 'c-q'"),
    "queue.unbind": (lambda c: c.queue_unbind("c-q", "amq.direct", "k"), "write access to queue 'c-q'"),
    "queue.bind from": (lambda c: c.queue_bind("no-q", "w-x", "k"), "read access to exchange 'w-x'"),
    "exchange.bind": (lambda c: c.exchange_bind("c-x", "r-x", "k"), "write access to exchange 'c-x'"),
    "exchange.unbind": (lambda c: c.exchange_unbind("w-x", "c-x", "k"), "read access to exchange 'c-x'"),
    "queue.unbind from": (lambda c: c.queue_unbind("no-q", "w-x", "k"), "read access to exchange 'w-x'"),
    "exchange.bind from": (lambda c: c.exchange_bind("w-x", "c-x", "k"), "read access to exchange 'c-x'"),
    "exchange.unbind to": (lambda c: c.exchange_unbind("c-x", "r-x", "k"), "write access to exchange 'c-x'"),
    "queue.purge": (lambda c: c.queue_purge("w-q"), "read access to queue 'w-q'"),
    "basic.get": (lambda c: c.basic_get("w-q"), "read access to queue 'w-q'"),
    "basic.consume": (lambda c: c.basic_consume("w-q", print), "read access to queue 'w-q'"),
    "basic.publish": (lambda c: c.basic_publish("r-x", "k", b""), "write access to exchange 'r-x'"),
    "basic.publish to the default exchange": (
        lambda c: c.basic_publish("", "w-q", b""),
        "write access to exchange 'amq.default'",
    ),
    "declare with a dead-letter exchange, read": (
        lambda c: c.queue_declare("c-q", arguments={"x-dead-letter-exchange": "w-x"}),
        "read access to queue 'c-q'",
    ),
    "declare with a dead-letter exchange, write": (
        lambda c: c.queue_declare("cr-q", arguments={"x-dead-letter-exchange": "r-x"}),
        "write access to exchange 'r-x'",
    ),
    "declare with an alternate exchange, read": (
        lambda c: c.exchange_declare("c-x", arguments={"alternate-exchange": "w-x"}),
        "read access to exchange 'c-x'",
    ),
    "declare with an alternate exchange, write": (
        lambda c: c.exchange_declare("cr-x", arguments={"alternate-exchange": "r-x"}),
        "write access to exchange 'r-x'",
    ),
}


@pytest.mark.parametrize("operation", CONFIGURE_ONLY)
def test_an_operation_without_its_right_is_refused(somebody, operation):
    somebody.may("^c[wr]*-", "^(w-|no-q)", "^[cw]*r[cw]*-")
    act, what = CONFIGURE_ONLY[operation]
    assert somebody.refused(act) == somebody.access_refused(what)


def test_a_right_is_asked_for_before_the_thing_itself(somebody):
    somebody.may("^mine", "^mine", "^mine")
    code, _ = somebody.refused(lambda c: c.basic_get("mine-missing"))
    assert code == 404
    assert somebody.refused(lambda c: c.basic_get("yours-missing")) == somebody.access_refused(
        "read access to queue 'yours-missing'"
    )


def test_what_everybody_is_refused_comes_first(somebody):
    somebody.may("^mine", "^mine", "^mine")
    assert somebody.refused(lambda c: c.queue_declare("amq.mine"))[1].startswith(
        "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    )
    assert somebody.refused(lambda c: c.exchange_delete("amq.direct"))[1].startswith("ACCESS_REFUSED - deletion of system")
    assert somebody.refused(lambda c: c.exchange_declare("yours", "no-such-type"))[0] == 406


ANY_TYPE = ["direct", "x-consistent-hash", "x-random", pytest.param("x-delayed-message", marks=pytest.mark.beyond)]


@pytest.mark.parametrize("kind", ANY_TYPE)
def test_an_exchange_of_any_type_needs_the_same_rights(somebody, kind):
    somebody.may("^mine", "^mine", "^mine")

    def declare(name, alternate="mine"):
        arguments = {"x-delayed-type": "direct", "alternate-exchange": alternate}
        return lambda c: c.exchange_declare(name, kind, auto_delete=True, arguments=arguments)

    somebody.does(declare("mine"))
    assert somebody.refused(declare("yours")) == somebody.access_refused("configure access to exchange 'yours'")
    assert somebody.refused(declare("mine-2", "yours")) == somebody.access_refused("write access to exchange 'yours'")


def test_patterns_match_anywhere_unless_anchored(somebody):
    somebody.may("job", ".*", ".*")
    somebody.does(lambda c: c.queue_declare("my-jobs", exclusive=True))
    somebody.may("^job", ".*", ".*")
    assert somebody.refused(lambda c: c.queue_declare("my-jobs"))[0] == 403


def test_the_empty_pattern_allows_nothing(somebody):
    somebody.may("", "", "")
    assert somebody.refused(lambda c: c.queue_declare("q")) == somebody.access_refused("configure access to queue 'q'")


def test_patterns_may_look_ahead(somebody):
    somebody.may("^(?!secret).*", "", "")
    somebody.does(lambda c: c.queue_declare("open", exclusive=True))
    assert somebody.refused(lambda c: c.queue_declare("secret-1"))[0] == 403


def test_server_named_queues_are_checked_by_their_name(somebody):
    somebody.may("^amq\\.gen", "", "")
    somebody.does(lambda c: c.queue_declare("", exclusive=True))
    somebody.may("^mine", "", "")
    code, text = somebody.refused(lambda c: c.queue_declare("", exclusive=True))
    assert code == 403 and "configure access to queue 'amq.gen-" in text


def test_any_right_is_enough_to_look(somebody, admin):
    for queue in ("c-q", "w-q", "r-q"):
        admin.queue_declare(queue)
    somebody.may("^c-", "^w-", "^r-")
    for queue in ("c-q", "w-q", "r-q"):
        somebody.does(lambda c, queue=queue: c.queue_declare(queue, passive=True))


def test_replies_need_no_right(somebody):
    somebody.may()
    somebody.does(lambda c: c.basic_consume("amq.rabbitmq.reply-to", print, auto_ack=True))


def test_topic_permissions_bound_the_keys(somebody):
    somebody.may(".*", ".*", ".*")
    somebody.may_use_topics("amq.topic", "^yes", "^{username}")
    somebody.does(lambda c: c.basic_publish("amq.topic", "yes.1", b""))
    what = "write access to topic 'no.1' in exchange 'amq.topic'"
    assert somebody.refused(lambda c: c.basic_publish("amq.topic", "no.1", b"")) == somebody.access_refused(what)

    def bind(key):
        def act(channel):
            channel.queue_declare("q", exclusive=True)
            channel.queue_bind("q", "amq.topic", key)

        return act

    somebody.does(bind(f"{somebody.name}.#"))
    what = "read access to topic 'no.1' in exchange 'amq.topic'"
    assert somebody.refused(bind("no.1")) == somebody.access_refused(what)
    # Nothing is said about other exchanges.
    somebody.does(lambda c: c.basic_publish("amq.direct", "no.1", b""))


@pytest.mark.parametrize(
    "pattern, key, matches",
    [
        ("^ab$", "ab\n", True),
        ("^ab$", "ab\n\n", False),
        ("^(ab$|c)", "ab\n", True),
        ("^$", "\n", True),
        ("^.*$", "ab\n", True),
        ("^.*$", "a\nb", False),
        (".*$", "a\nb", True),
        ("^ab\\Z", "ab\n", True),
        ("^ab\\z", "ab\n", False),
        ("^(?!.*b$)", "ab\n", False),
        ("^(?!.*b$)", "ab\nc", True),
        ("(?m)^b$", "a\nb\nc", True),
        ("^[$]", "$", True),
        ("^[$]", "\n", False),
        ("^[]$]", "$", True),
        ("^a\\$$", "a$\n", True),
        ("^a\\\\$", "a\\\n", True),
        ("^.$", "\u00e9", False),
        ("^..$", "\u00e9", True),
        ("^[\u00e9]{2}$", "\u00e9", True),
        ("^\u00e9$", "\u00e9", True),
        ("^\\w+$", "\u00e9", False),
        ("^\\W{2}$", "\u00e9", True),
        ("(?i)^a$", "A", True),
        ("(?i)^\u00e9$", "\u00c9", False),
        ("^[^a]{2}$", "\u00e9", True),
        ("^(?=..$).*", "\u00e9", True),
    ],
)
def test_a_pattern_is_matched_with_the_bytes_of_a_name(somebody, pattern, key, matches):
    somebody.may(".*", ".*", ".*")
    somebody.may_use_topics("amq.topic", pattern, ".*")

    def publish(channel):
        channel.basic_publish("amq.topic", key, b"")

    if matches:
        somebody.does(publish)
    else:
        assert somebody.refused(publish)[0] == 403


def test_topic_permissions_bound_the_keys_of_an_unbind(somebody):
    somebody.may(".*", ".*", ".*")
    somebody.may_use_topics("amq.topic", ".*", "^yes")

    def unbind(channel):
        channel.queue_declare("q", exclusive=True)
        channel.queue_unbind("q", "amq.topic", "no.1")

    what = "read access to topic 'no.1' in exchange 'amq.topic'"
    assert somebody.refused(unbind) == somebody.access_refused(what)


def test_what_is_wrong_with_a_publish_is_told_in_this_order(somebody):
    somebody.may(".*", "^(may-|amq\\.topic$)", ".*")
    somebody.may_use_topics("amq.topic", "^yes", ".*")
    foreign = pika.BasicProperties(user_id="another")
    large, cc = b"x" * 16777217, pika.BasicProperties(user_id="another", headers={"CC": "no array"})
    may_not = somebody.access_refused("write access to exchange 'amq.direct'")
    assert "message size" in somebody.refused(lambda c: c.basic_publish("amq.direct", "k", large))[1]
    assert somebody.refused(lambda c: c.basic_publish("amq.direct", "k", b"", foreign)) == may_not
    assert somebody.refused(lambda c: c.basic_publish("no-such", "k", b""))[0] == 403
    assert somebody.refused(lambda c: c.basic_publish("may-be-missing", "k", b"", foreign))[0] == 404
    assert "invalid message" in somebody.refused(lambda c: c.basic_publish("amq.topic", "no.1", b"", cc))[1]
    topic = somebody.access_refused("write access to topic 'no.1' in exchange 'amq.topic'")
    assert somebody.refused(lambda c: c.basic_publish("amq.topic", "no.1", b"", foreign)) == topic
    assert "user_id property" in somebody.refused(lambda c: c.basic_publish("amq.topic", "yes.1", b"", foreign))[1]


def test_a_key_in_cc_is_checked_too(somebody):
    somebody.may(".*", ".*", ".*")
    somebody.may_use_topics("amq.topic", "^yes", ".*")
    properties = pika.BasicProperties(headers={"CC": ["no.1"]})
    what = "write access to topic 'no.1' in exchange 'amq.topic'"
    refused = somebody.refused(lambda c: c.basic_publish("amq.topic", "yes.1", b"", properties))
    assert refused == somebody.access_refused(what)


def test_a_user_id_is_ones_own_unless_one_may_impersonate(somebody):
    somebody.may(".*", ".*", ".*")
    foreign = pika.BasicProperties(user_id="another")
    somebody.does(lambda c: c.basic_publish("", "q", b"", pika.BasicProperties(user_id=somebody.name)))
    text = f"PRECONDITION_FAILED - user_id property set to 'another' but authenticated user was '{somebody.name}'"
    assert somebody.refused(lambda c: c.basic_publish("", "q", b"", foreign)) == (406, text)
    somebody.tags("impersonator")
    somebody.does(lambda c: c.basic_publish("", "q", b"", foreign))


def test_a_permission_taken_back_leaves_the_connection_open_and_refuses_what_is_new(somebody, api):
    somebody.may(".*", ".*", ".*")
    with somebody.connected() as connection:
        channel = connection.channel()
        channel.queue_declare("q", exclusive=True)
        assert api.delete(f"permissions/{somebody.vhost}/{somebody.name}").status == 204
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            connection.channel().queue_declare("another")
        assert closed.value.reply_code == 403
        assert connection.is_open


@pytest.mark.beyond
def test_a_permission_taken_back_is_effective_for_the_next_publish(somebody):
    somebody.may(".*", ".*", ".*")
    with somebody.connected() as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", "q", b"")
        somebody.may(".*", "^other$", ".*")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
            channel.basic_publish("", "q", b"")
        assert closed.value.reply_code == 403


def closed_by(connection):
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        while True:
            connection.process_data_events(time_limit=10)
    return closed.value.reply_code, closed.value.reply_text


def test_the_connections_of_a_deleted_user_are_closed(somebody, api):
    somebody.may(".*", ".*", ".*")
    with somebody.connected() as connection:
        assert api.delete(f"users/{somebody.name}").status == 204
        assert closed_by(connection) == (320, f"CONNECTION_FORCED - user '{somebody.name}' is deleted")


def test_the_connections_of_a_deleted_vhost_are_closed(somebody, api):
    somebody.may(".*", ".*", ".*")
    with somebody.connected() as connection:
        assert api.delete(f"vhosts/{somebody.vhost}").status == 204
        assert closed_by(connection) == (320, f"CONNECTION_FORCED - vhost '{somebody.vhost}' is deleted")


def test_a_wrong_password_is_refused(somebody):
    somebody.may(".*", ".*", ".*")
    somebody.api.put(f"users/{somebody.name}", {"password": "changed", "tags": ""})
    with pytest.raises(pika.exceptions.ProbableAuthenticationError), somebody.connected():
        pass


def test_a_vhost_has_only_so_many_queues(somebody, api):
    somebody.may(".*", ".*", ".*")
    assert api.put(f"vhost-limits/{somebody.vhost}/max-queues", {"value": 1}).status == 204
    text = f"PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '{somebody.vhost}' (1) is reached"

    def declare_twice(channel):
        channel.queue_declare("one", exclusive=True)
        channel.queue_declare("one", exclusive=True)
        channel.queue_declare("two")

    assert somebody.refused(declare_twice) == (406, text)


def test_a_vhost_may_be_closed_by_its_limit(somebody, api):
    somebody.may(".*", ".*", ".*")
    assert api.put(f"vhost-limits/{somebody.vhost}/max-connections", {"value": 0}).status == 204
    text = f"NOT_ALLOWED - access to vhost '{somebody.vhost}' refused for user '{somebody.name}': connection limit (0) is reached"
    assert somebody.cannot_open() == (530, text)
    assert api.put(f"vhost-limits/{somebody.vhost}/max-connections", {"value": -1}).status == 204
    somebody.does(lambda c: None)


def test_a_user_has_only_so_many_channels(somebody, api):
    somebody.may(".*", ".*", ".*")
    assert api.put(f"user-limits/{somebody.name}/max-channels", {"value": 1}).status == 204
    text = (
        f"NOT_ALLOWED - number of channels opened for user '{somebody.name}' has reached the maximum allowed user "
        "limit of 1"
    )
    with somebody.connected() as connection:
        connection.channel()
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            connection.channel()
        assert (closed.value.reply_code, closed.value.reply_text) == (530, text)


def test_a_user_may_have_no_connection(somebody, api):
    somebody.may(".*", ".*", ".*")
    assert api.put(f"user-limits/{somebody.name}/max-connections", {"value": 0}).status == 204
    text = f"NOT_ALLOWED - connection refused for user '{somebody.name}': user connection limit (0) is reached"
    assert somebody.cannot_open() == (530, text)
