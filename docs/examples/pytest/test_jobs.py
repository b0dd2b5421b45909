import pika


def test_a_job_arrives(broker_url):
    connection = pika.BlockingConnection(pika.URLParameters(broker_url))
    channel = connection.channel()
    channel.queue_declare("jobs", durable=True)
    channel.basic_publish("", "jobs", b"one")
    method, _, body = channel.basic_get("jobs", auto_ack=True)
    assert method is not None and body == b"one"
    connection.close()
