"""connection.start, start-ok and the mechanisms."""

import re

import pytest

from .client import CAPABILITIES, SILENT_DROP, Dropped, amqplain
from .wire import HEARTBEAT, METHOD, PROTOCOL_HEADER, Frame, Value, encode_method, encode_table, table_items

pytestmark = pytest.mark.connection

REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the broker logfile."


# --- what the broker says first


def test_mechanisms_are_offered_by_name_with_spaces_between(dial):
    offered = dial().greet().mechanisms.split(" ")
    # EXTERNAL must not be there unless configured.
    assert set(offered) == {"PLAIN", "AMQPLAIN", "ANONYMOUS"}


def test_an_anonymous_client_is_guest(dial):
    connection = dial()
    connection.greet()
    connection.send_start_ok(mechanism="ANONYMOUS", response="anything")
    connection.expect("connection.tune")


def test_the_locale_is_en_us(dial):
    assert dial().greet().locales == "en_US"


def test_server_properties_have_the_known_keys_in_order(dial):
    properties = dial().greet().server_properties
    keys = ["capabilities", "cluster_name", "copyright", "information", "platform", "product", "version"]
    assert properties.keys() == keys


def test_server_properties_are_long_strings(dial):
    properties = dial().greet().server_properties
    assert {value.letter for key, value in properties if key != "capabilities"} == {"S"}


def test_product_is_one_that_clients_know(dial):
    assert dial().greet().server_properties.plain()["product"] == "RabbitMQ"


def test_version_is_dotted_numbers(dial):
    version = dial().greet().server_properties.plain()["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version) and int(version.split(".")[0]) >= 4


@pytest.mark.parametrize(
    "capability",
    [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "consumer_priorities",
        "authentication_failure_close",
        "per_consumer_qos",
        "direct_reply_to",
    ],
)
def test_capability_is_announced(dial, capability):
    capabilities = dial().greet().server_properties.value("capabilities").value
    assert capabilities.value(capability) == Value("t", True)


# --- the whole way in


def _whole_handshake(endpoint) -> bytes:
    methods = [
        encode_method(
            "connection.start-ok",
            client_properties={"capabilities": CAPABILITIES},
            response=f"\0{endpoint.user}\0{endpoint.password}",
        ),
        encode_method("connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=0),
        encode_method("connection.open", virtual_host=endpoint.vhost),
    ]
    frames = [Frame(METHOD, 0, method) for method in methods]
    frames.append(Frame(METHOD, 1, encode_method("channel.open")))
    return PROTOCOL_HEADER + b"".join(frame.encode() for frame in frames)


def _expect_open_channel(connection) -> None:
    for answer in ("connection.start", "connection.tune", "connection.open-ok"):
        connection.expect(answer)
    assert connection.next(1).name == "channel.open-ok"


def test_the_whole_handshake_and_a_channel_may_come_in_one_write(dial, endpoint):
    connection = dial()
    connection.write(_whole_handshake(endpoint))
    _expect_open_channel(connection)


def test_the_whole_handshake_may_come_byte_by_byte(dial, endpoint):
    connection = dial()
    for octet in _whole_handshake(endpoint):
        connection.write(bytes([octet]))
    _expect_open_channel(connection)


def test_heartbeats_are_ignored_during_the_handshake(dial, endpoint):
    connection, heartbeat = dial(), Frame(HEARTBEAT, 0, b"").encode()
    connection.greet()
    connection.write(heartbeat)
    connection.send_start_ok()
    connection.tune = connection.expect("connection.tune")
    connection.write(heartbeat)
    connection.send_tune_ok()
    connection.write(heartbeat)
    connection.send(0, "connection.open", virtual_host=endpoint.vhost)
    connection.expect("connection.open-ok")


def test_open_ok_has_empty_known_hosts(dial):
    connection = dial()
    connection.greet()
    connection.send_start_ok()
    connection.tune = connection.expect("connection.tune")
    connection.send_tune_ok()
    connection.send(0, "connection.open", virtual_host=connection.vhost)
    assert connection.expect("connection.open-ok").known_hosts == ""


def test_the_locale_of_the_client_does_not_matter(dial):
    connection = dial()
    connection.greet()
    connection.send_start_ok(locale="xx_XX")
    connection.expect("connection.tune")


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"capabilities": {}},
        {"connection_name": "a name", "product": "test", "version": Value("I", 1)},
        {"deep": {"a": [1, "x", {"b": None}]}, "float": 1.5, "bytes": Value("x", b"\x00\xff")},
        {"capabilities": "not a table"},
    ],
    ids=["empty", "no capabilities", "named", "all kinds", "capabilities of another type"],
)
def test_client_properties_are_the_clients_business(dial, endpoint, properties):
    connection = dial()
    connection.greet()
    connection.send(
        0,
        "connection.start-ok",
        client_properties=properties,
        response=f"\0{endpoint.user}\0{endpoint.password}",
    )
    connection.expect("connection.tune")


def test_start_ok_of_8192_bytes_is_accepted(dial, endpoint):
    connection = dial()
    connection.greet()
    connection.send_frame(METHOD, 0, _start_ok_of_size(endpoint, 8192))
    connection.expect("connection.tune")


def _start_ok_of_size(endpoint, size: int) -> bytes:
    def start_ok(filler: int) -> bytes:
        return encode_method(
            "connection.start-ok",
            client_properties={"capabilities": CAPABILITIES, "filler": "x" * filler},
            response=f"\0{endpoint.user}\0{endpoint.password}",
        )

    return start_ok(size - len(start_ok(0)))


@pytest.mark.slow
def test_any_octet_but_zero_makes_a_capability_true(dial, endpoint):
    refusals = {7: dial(), 0: dial()}
    for octet, connection in refusals.items():
        connection.greet()
        connection.send(
            0,
            "connection.start-ok",
            client_properties=b"\x0ccapabilitiesF\x00\x00\x00\x1f\x1cauthentication_failure_closet" + bytes([octet]),
            response=f"\0{endpoint.user}\0wrong",
        )
    refusals[7].expect_close(403, REFUSED.format("PLAIN"), (0, 0))
    assert refusals[0].outcome(timeout=SILENT_DROP) == Dropped()


# --- mechanisms


def test_amqplain_logs_in(dial, endpoint):
    connection = dial()
    connection.greet()
    connection.send_start_ok(mechanism="AMQPLAIN", response=amqplain(endpoint.user, endpoint.password))
    connection.expect("connection.tune")


def test_amqplain_takes_binary_strings(dial, endpoint):
    connection = dial()
    connection.greet()
    fields = {"PASSWORD": Value("x", endpoint.password), "LOGIN": Value("x", endpoint.user)}
    connection.send_start_ok(mechanism="AMQPLAIN", response=table_items(fields))
    connection.expect("connection.tune")


def test_anonymous_logs_in_where_it_is_offered(dial):
    connection = dial()
    offered = "ANONYMOUS" in connection.greet().mechanisms.split(" ")
    connection.send_start_ok(mechanism="ANONYMOUS", response="whoever")
    if offered:
        connection.expect("connection.tune")
    else:
        assert connection.outcome(timeout=SILENT_DROP) == Dropped()


@pytest.mark.parametrize(
    "user, password",
    [(None, "wrong"), ("nobody-of-that-name", "guest"), ("", ""), (None, "")],
    ids=["wrong password", "unknown user", "nobody", "no password"],
)
def test_a_refused_login_is_told_to_clients_that_can_take_it(dial, endpoint, user, password):
    connection = dial()
    connection.greet()
    response = f"\0{endpoint.user if user is None else user}\0{password}"
    connection.send_start_ok(response=response)
    connection.expect_close(403, REFUSED.format("PLAIN"), (0, 0))
    connection.expect_end(timeout=2)


@pytest.mark.slow
def test_a_refused_login_ends_also_without_close_ok(dial, endpoint):
    connection = dial()
    connection.greet()
    connection.send_start_ok(response=f"\0{endpoint.user}\0wrong")
    assert connection.expect("connection.close").reply_code == 403
    connection.expect_end(timeout=SILENT_DROP)


def test_a_refused_amqplain_login_names_its_mechanism(dial, endpoint):
    connection = dial()
    connection.greet()
    connection.send_start_ok(mechanism="AMQPLAIN", response=amqplain(endpoint.user, "wrong"))
    connection.expect_close(403, REFUSED.format("AMQPLAIN"), (0, 0))


def test_an_amqplain_password_that_is_no_text_is_a_wrong_one(dial, endpoint):
    connection = dial()
    connection.greet()
    response = table_items({"LOGIN": endpoint.user, "PASSWORD": 1})
    connection.send_start_ok(mechanism="AMQPLAIN", response=response)
    connection.expect_close(403, REFUSED.format("AMQPLAIN"), (0, 0))


@pytest.mark.slow
def test_a_login_that_cannot_be_answered_is_dropped_after_a_while(dial, endpoint):
    """Clients see the end of the socket as a refused login. Only bytes that cannot be read may be called so."""
    user, password = endpoint.user, endpoint.password
    plain, wrong = f"\0{user}\0{password}", f"\0{user}\0wrong"
    unable = {"authentication_failure_close": False}
    logins = {
        "no capability": dict(response=wrong, capabilities=unable),
        "capability missing": dict(response=wrong, capabilities={}),
        "capability is a string": dict(response=wrong, capabilities={"authentication_failure_close": "true"}),
        "authorisation id": dict(response=f"{user}{plain}"),
        "no nul": dict(response=f"{user}{password}"),
        "one nul": dict(response=f"\0{user}{password}"),
        "empty response": dict(response=""),
        "unknown mechanism": dict(mechanism="NOPE", response=plain),
        "mechanism in lower case": dict(mechanism="plain", response=plain),
        "empty mechanism": dict(mechanism="", response=plain),
        "EXTERNAL on plain TCP": dict(mechanism="EXTERNAL", response=""),
        "AMQPLAIN with a length": dict(
            mechanism="AMQPLAIN", response=encode_table({"LOGIN": user, "PASSWORD": password})
        ),
        "AMQPLAIN without password": dict(mechanism="AMQPLAIN", response=table_items({"LOGIN": user})),
        "AMQPLAIN without login": dict(mechanism="AMQPLAIN", response=table_items({"PASSWORD": password})),
    }
    unreadable = {
        "more than 8192 bytes": _start_ok_of_size(endpoint, 8193),
        "unknown letter": encode_method(
            "connection.start-ok", client_properties={"odd": Value("Z", b"")}, response=plain
        ),
    }
    waiting = {case: dial() for case in [*logins, *unreadable]}
    for case, connection in waiting.items():
        connection.greet()
        if case in logins:
            connection.send_start_ok(**{"capabilities": CAPABILITIES, **logins[case]})
        else:
            connection.send_frame(METHOD, 0, unreadable[case])
    outcomes = {case: connection.outcome(timeout=SILENT_DROP) for case, connection in waiting.items()}
    assert {case: outcomes[case] for case in logins} == dict.fromkeys(logins, Dropped())
    for case in unreadable:
        assert outcomes[case] == Dropped() or outcomes[case].code in (501, 502), (case, outcomes[case])
