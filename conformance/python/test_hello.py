"""One message from one program to another."""

import pika


def test_a_message_sent_to_a_queue_is_received_with_its_body_and_properties(channel, queue_name):
    channel.queue_declare(queue=queue_name)
    properties = pika.BasicProperties(content_type="text/plain", headers={"lang": "en"}, message_id="m-1")
    channel.basic_publish(exchange="", routing_key=queue_name, body=b"Hello World!", properties=properties)

    received = []

    def on_message(channel, method, properties, body):
        received.append((method, properties, body))
        channel.stop_consuming()

    channel.basic_consume(queue=queue_name, on_message_callback=on_message, auto_ack=True)
    channel.start_consuming()

    [(method, properties, body)] = received
    assert body == b"Hello World!"
    assert (method.exchange, method.routing_key, method.redelivered) == ("", queue_name, False)
    assert (properties.content_type, properties.headers, properties.message_id) == ("text/plain", {"lang": "en"}, "m-1")


def test_the_broker_says_what_it_is(broker):
    words = {key: broker.server_properties.get(key) for key in ("product", "version", "platform")}
    assert all(isinstance(word, str) and word for word in words.values()), words
