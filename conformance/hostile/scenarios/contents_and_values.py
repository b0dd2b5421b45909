"""Frames, contents and values of somebody who has logged in."""

import struct

from frames.wire import BODY, HEADER, METHOD, METHODS, encode_header, encode_method
from peer import Peer, nested_tables, until

MEGABYTE = 1 << 20


def sc12_faults_of_framing_end_the_connection_and_nothing_else(case):
    broker = case.broker()
    other = Peer(broker.port).open()
    publish = encode_method("basic.publish", routing_key="q")
    for code, frames in (
        (501, [struct.pack(">BHI", METHOD, 1, 4) + b"\0\x14\0\x28" + b"\0"]),
        (501, [struct.pack(">BHI", METHOD, 1, 131073)]),
        (501, [struct.pack(">BHI", 9, 1, 0) + b"\xce"]),
        (504, [(METHOD, 7, encode_method("basic.qos"))]),
        (505, [struct.pack(">BHI", 8, 1, 0) + b"\xce"]),
        (505, [(BODY, 1, b"x")]),
        (505, [(METHOD, 1, publish), (BODY, 1, b"x")]),
        (505, [(METHOD, 1, publish), (HEADER, 1, encode_header(1, class_id=50))]),
        (503, [(METHOD, 1, struct.pack(">HH", 60, 999))]),
        (None, [(METHOD, 1, b"\0\x3c")]),
    ):
        peer = Peer(broker.port).open()
        for each in frames:
            peer.write(each) if isinstance(each, bytes) else peer.frame(*each)
        found = peer.refusal()
        # None: hard, by whichever code.
        assert found == code or (code is None and found is not None), (found, code, frames)
    other.is_alive()


def sc13_sizes_that_lie_have_the_right_outcome(case):
    broker = case.broker()
    before = broker.rss()
    assert Peer(broker.port).open().frame(METHOD, 1, encode_method("basic.publish")).frame(
        HEADER, 1, encode_header((1 << 64) - 1)
    ).refusal() in (406, 501)
    peer = Peer(broker.port).open()
    peer.frame(METHOD, 1, encode_method("basic.publish", routing_key="q")).frame(HEADER, 1, encode_header(3))
    assert peer.frame(BODY, 1, b"xxxx").refusal() == 501
    peer = Peer(broker.port).open()
    queue = peer.queue("", exclusive=True)
    # Empty body frames without an end are no progress, and no harm.
    peer.frame(METHOD, 1, encode_method("basic.publish", routing_key=queue)).frame(HEADER, 1, encode_header(3))
    for _ in range(20_000):
        peer.frame(BODY, 1, b"")
    peer.frame(BODY, 1, b"abc")
    peer.publish(b"", routing_key=queue)
    answer = peer.ask("queue.declare", "queue.declare-ok", queue=queue, passive=True)
    assert answer.arguments["message_count"] == 2
    assert broker.rss() - before < 16 * MEGABYTE


def sc14_announced_bodies_reserve_nothing(case):
    broker = case.broker()
    peer = Peer(broker.port).open(channel=False)
    for channel in range(1, 2048):
        peer.send("channel.open", channel)
    for _ in range(1, 2048):
        peer.expect("channel.open-ok")
    before = broker.rss()
    for channel in range(1, 2048):
        peer.frame(METHOD, channel, encode_method("basic.publish", routing_key="x"))
        peer.frame(HEADER, channel, encode_header(16 * MEGABYTE))
    # A good client still gets its turn.
    Peer(broker.port).open().is_alive()
    # Answered behind all of that.
    peer.ask("connection.update-secret", "connection.update-secret-ok", 0, new_secret="guest", reason="")
    grown = broker.rss() - before
    case.note(f"{grown / MEGABYTE:.1f} MiB for 32 GiB that were announced")
    assert grown < 64 * MEGABYTE
    # What does come is bounded over all channels together.
    chunk = b"x" * 131064
    try:
        for round_ in range(12):
            for channel in range(1, 2048, 8):
                peer.frame(BODY, channel, chunk)
    except OSError:
        pass
    # 128 MiB are counted. A part is a slice of what was read with it, and the allocator rounds: as much as half of it again.
    assert broker.rss() - before < 192 * MEGABYTE, f"{(broker.rss() - before) / MEGABYTE:.0f} MiB"


def sc15_strings_of_255_bytes_survive_everything(case):
    broker = case.broker()
    long = "é" * 127 + "x"
    assert len(long.encode()) == 255
    peer = Peer(broker.port).open()
    peer.ask("exchange.declare", "exchange.declare-ok", exchange=long, type="topic", durable=True)
    peer.queue(long, durable=True, arguments={"x-dead-letter-exchange": long, "x-dead-letter-routing-key": long})
    peer.queue("dead", durable=True)
    peer.ask("queue.bind", "queue.bind-ok", queue="dead", exchange=long, routing_key=long)
    peer.ask("confirm.select", "confirm.select-ok")
    peer.publish(b"body", routing_key=long, properties={"delivery_mode": 2, "message_id": long, "headers": {long[:200]: long}})
    peer.expect("basic.ack")
    peer.ask("basic.consume", "basic.consume-ok", queue=long, consumer_tag=long)
    delivery = peer.expect("basic.deliver")
    assert delivery.arguments["consumer_tag"] == long
    peer.send("basic.reject", delivery_tag=delivery.arguments["delivery_tag"], requeue=False)


    def has_arrived():
        return peer.ask("queue.declare", "queue.declare-ok", queue="dead", passive=True).arguments["message_count"] > 0

    until(has_arrived, text="nothing was dead-lettered")
    peer.hang_up()
    broker.signal(15)
    broker.process.wait(30)
    broker.start(limit=20)
    peer = Peer(broker.port).open()
    got = peer.ask("basic.get", "basic.get-ok", queue="dead", no_ack=True)
    assert got.arguments["exchange"] == long and got.arguments["routing_key"] == long


def sc17_nested_tables_have_a_limit_and_no_stack(case):
    broker = case.broker()
    peer = Peer(broker.port).open()

    def declare(levels):
        name = f"q{levels}"
        head = encode_method("queue.declare", queue=name)[:-4]
        peer.frame(METHOD, 1, head + nested_tables(levels))
        return peer.method()

    deepest = 0
    for levels in (1, 10, 16, 100, 127, 128, 129, 1000, 20_000):
        answer = declare(levels)
        if answer is not None and answer.name == "queue.declare-ok":
            deepest = levels
            continue
        assert answer is None or answer.name in ("connection.close", "channel.close"), answer
        peer = Peer(broker.port).open()
    case.note(f"{deepest} levels passed")
    assert 16 <= deepest <= 128
    # The same in a message's headers.
    for levels, passes in ((16, True), (20_000, False)):
        peer = Peer(broker.port).open()
        queue = peer.queue("", exclusive=True)
        peer.frame(METHOD, 1, encode_method("basic.publish", routing_key=queue))
        peer.frame(HEADER, 1, encode_header(0, struct.pack(">H", 1 << 13) + nested_tables(levels)))
        if passes:
            peer.is_alive()
        else:
            assert peer.refusal() in (501, 502)


def sc20_delivery_tags_of_others_have_no_effect(case):
    broker = case.broker()
    owner = Peer(broker.port).open()
    queue = owner.queue("tags")
    for number in range(3):
        owner.publish(b"%d" % number, routing_key=queue)
    owner.ask("basic.get", "basic.get-ok", queue=queue)
    for tag in (2, (1 << 64) - 1):
        for method in ("basic.ack", "basic.nack", "basic.reject"):
            peer = Peer(broker.port).open().send(method, delivery_tag=tag)
            assert peer.refusal() == 406
    # Tag 1 of somebody else is not tag 1 of this channel.
    assert Peer(broker.port).open().send("basic.ack", delivery_tag=1).refusal() == 406
    owner.send("basic.ack", delivery_tag=1)
    assert owner.ask("queue.declare", "queue.declare-ok", queue=queue, passive=True).arguments["message_count"] == 2
    assert owner.send("basic.ack", delivery_tag=1).refusal() == 406


def sc30_junk_in_properties_is_harmless(case):
    broker = case.broker()
    for expiration in ("-1", "", "soon", "1e9", "99999999999999999999", "\0", "1" * 255):
        peer = Peer(broker.port).open()
        queue = peer.queue("", exclusive=True)
        peer.publish(b"x", routing_key=queue, properties={"expiration": expiration})
        peer.send("basic.qos", prefetch_count=1)
        answer = peer.method()
        assert answer.name in ("basic.qos-ok", "channel.close"), answer
    peer = Peer(broker.port).open()
    queue = peer.queue("", exclusive=True)
    for properties in (
        struct.pack(">H", 0xFFFE) + b"\xff" * 40,
        struct.pack(">H", 1),
        struct.pack(">HH", 1, 1),
        struct.pack(">H", 1 << 15) + b"\xff",
        struct.pack(">H", 1 << 6),
    ):
        peer = Peer(broker.port).open()
        peer.frame(METHOD, 1, encode_method("basic.publish", routing_key=queue))
        peer.frame(HEADER, 1, encode_header(0, properties))
        peer.send("basic.qos", prefetch_count=1)
        answer = peer.method()
        assert answer is None or answer.name in ("connection.close", "basic.qos-ok"), answer
    Peer(broker.port).open().is_alive()


def sc30_an_array_where_a_hash_is_wanted(case):
    """Whatever the header is: a dead letter arrives, and its queue lives on."""
    broker = case.broker()
    peer = Peer(broker.port).open()
    arguments = {"hash-header": "h"}
    peer.ask("exchange.declare", "exchange.declare-ok", exchange="hash", type="x-consistent-hash", arguments=arguments)
    bound = peer.queue("", exclusive=True)
    peer.ask("queue.bind", "queue.bind-ok", queue=bound, exchange="hash", routing_key="1")
    for arguments in ({}, {"x-queue-type": "quorum"}):
        arguments |= {"x-dead-letter-exchange": "hash"}
        name = f"dying{len(arguments)}"
        peer.ask("queue.declare", "queue.declare-ok", queue=name, durable=True, arguments=arguments)
        for odd in ([], [[]], {}, 1, None, True):
            peer.publish(b"dies", routing_key=name, properties={"headers": {"h": odd}})
            got = peer.ask("basic.get", "basic.get-ok", queue=name)
            peer.read(), peer.read()
            peer.send("basic.reject", delivery_tag=got.arguments["delivery_tag"], requeue=False)
            peer.is_alive()
            until(lambda: peer.ask("queue.declare", "queue.declare-ok", queue=bound, passive=True).arguments["message_count"])
            peer.ask("queue.purge", "queue.purge-ok", queue=bound)
        peer.publish(b"lives", routing_key=name)
        peer.ask("basic.get", "basic.get-ok", queue=name, no_ack=True)
        peer.read(), peer.read()


def every_method_with_garbage():
    for name, spec in METHODS.items():
        ids = struct.pack(">HH", *spec.ids)
        for payload in (b"", b"\xff" * 3, b"\xff" * 600, b"\0" * 600):
            yield name, ids + payload


def sc12_every_method_with_garbage_for_arguments(case):
    broker = case.broker()
    other = Peer(broker.port).open()
    for _, payload in every_method_with_garbage():
        for channel in (0, 1):
            Peer(broker.port).open().frame(METHOD, channel, payload).hang_up()
    other.is_alive()
