"""What is only Leveret's: looking at messages without taking them, and cancelling other people's consumers."""

import time
from datetime import datetime, timedelta

import pika
import pytest

from http_api import quoted
from management.test_api import connection, eventually  # noqa: F401

pytestmark = pytest.mark.beyond


def test_messages_are_looked_at_where_they_stand(api, vhost, connection):  # noqa: F811
    with connection.channel() as channel:
        channel.queue_declare("q", durable=True)
        properties = pika.BasicProperties(delivery_mode=2, headers={"n": 1})
        for number in range(5):
            channel.basic_publish("", "q", f"body {number}".encode(), properties)
        channel.basic_qos(prefetch_count=2)
        method, _, _ = channel.basic_get("q")
        path = f"x/queues/{vhost}/q/messages"
        assert eventually(lambda: len(api.get(path).json["messages"]) == 5)
        before = api.get(f"queues/{vhost}/q").json
        seen = api.get(f"{path}?body=true").json
        assert seen["next"] is None
        first, *rest = seen["messages"]
        assert first["state"] == "unacked" and first["holder"]["channel"] == channel.channel_number
        assert [each["state"] for each in rest] == ["ready"] * 4
        assert [each["payload"] for each in rest] == [f"body {number}" for number in range(1, 5)]
        assert rest[0]["properties"] == {"delivery_mode": 2, "headers": {"n": 1}}
        assert not any(each["redelivered"] for each in rest)
        assert "payload" not in api.get(path).json["messages"][0]
        # Page by page, and by state.
        page = api.get(f"{path}?limit=2").json
        assert [each["ref"] for each in page["messages"]] == [first["ref"], rest[0]["ref"]]
        page = api.get(f"{path}?limit=3&after={page['next']}").json
        assert [each["ref"] for each in page["messages"]] == [each["ref"] for each in rest[1:]]
        assert len(api.get(f"{path}?state=ready").json["messages"]) == 4
        assert api.get(f"{path}?state=none").status == 400
        after = api.get(f"queues/{vhost}/q").json
        assert {key: after[key] for key in ("messages_ready", "messages_unacknowledged")} == {
            key: before[key] for key in ("messages_ready", "messages_unacknowledged")
        }
        channel.basic_nack(method.delivery_tag)
        # Nobody who looked has made anything redelivered.
        flags = [channel.basic_get("q", auto_ack=True)[0].redelivered for _ in range(5)]
        assert flags == [True, False, False, False, False]


def test_messages_on_disk_show_when_they_expire(api, vhost, connection):  # noqa: F811
    with connection.channel() as channel:
        channel.queue_declare("q", durable=True, arguments={"x-message-ttl": 600_000})
        properties = pika.BasicProperties(delivery_mode=2)
        for _ in range(2200):
            channel.basic_publish("", "q", b"x", properties)
        path = f"x/queues/{vhost}/q/messages?limit=1000"
        assert eventually(lambda: api.get(f"queues/{vhost}/q").json["messages_ready"] == 2200)
        assert eventually(lambda: api.get(f"queues/{vhost}/q").json["messages_ram"] < 2200)
        seen = []

        def all_of_them():
            del seen[:]
            after = ""
            while after is not None:
                page = api.get(f"{path}{after}").json
                seen.extend(page["messages"])
                after = page["next"] and f"&after={page['next']}"
            return len(seen) == 2200

        assert eventually(all_of_them), len(seen)
        for each in seen:
            came, expires = (datetime.fromisoformat(each[key]) for key in ("came_at", "expires_at"))
            assert expires - came >= timedelta(minutes=10), each


def test_a_stream_is_looked_at_from_any_place(api, vhost, connection):  # noqa: F811
    with connection.channel() as channel:
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        channel.confirm_delivery()
        for number in range(4):
            channel.basic_publish("", "s", str(number).encode())
        path = f"x/queues/{vhost}/s/messages?body=true"
        assert eventually(lambda: len(api.get(path).json["messages"]) == 4)
        page = api.get(f"{path}&limit=2").json
        assert [each["payload"] for each in page["messages"]] == ["0", "1"]
        page = api.get(f"{path}&after={page['next']}").json
        assert [each["payload"] for each in page["messages"]] == ["2", "3"]


def test_a_consumer_is_cancelled_over_http(api, vhost, connection):  # noqa: F811
    with connection.channel() as channel:
        channel.queue_declare("q", durable=True)
        cancelled = []
        channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        channel.basic_consume("q", lambda *_: None, consumer_tag="worker/1")
        [consumer] = eventually(lambda: api.get(f"consumers/{vhost}").json)
        name = quoted(consumer["channel_details"]["connection_name"])
        assert api.delete(f"x/consumers/{name}/1/none").status == 404
        assert api.delete(f"x/consumers/{name}/1/{quoted('worker/1')}").status == 204
        deadline = time.monotonic() + 10
        while not cancelled and time.monotonic() < deadline:
            connection.process_data_events(time_limit=0.1)
        assert cancelled == ["worker/1"]
        assert api.get(f"consumers/{vhost}").json == []
        assert channel.is_open
