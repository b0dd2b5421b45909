"""pika over TLS, as its documentation has it: a large body there and back. BROKER_URL, SSL_CERT_FILE."""

import os
import ssl

import pika

parameters = pika.URLParameters(os.environ["BROKER_URL"])
context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
parameters.ssl_options = pika.SSLOptions(context, parameters.host)
connection = pika.BlockingConnection(parameters)
channel = connection.channel()
queue = channel.queue_declare("", exclusive=True).method.queue
channel.confirm_delivery()
body = os.urandom(3_000_000)
channel.basic_publish("", queue, body)
for method, _, received in channel.consume(queue, inactivity_timeout=15):
    assert method is not None, "nothing was delivered"
    assert received == body
    channel.basic_ack(method.delivery_tag)
    break
channel.cancel()
connection.close()
