"""A client that comes with a token."""

import re

import pika
import requests


class Client:
    """Connections to the broker that end with the test."""

    def __init__(self, broker):
        self.broker = broker
        self.open = []

    def connect(self, token, user="", vhost="/"):
        credentials = pika.PlainCredentials(user, token)
        broker = self.broker
        parameters = pika.ConnectionParameters(
            broker.host, broker.port, vhost, credentials, socket_timeout=10, stack_timeout=10, heartbeat=0
        )
        connection = pika.BlockingConnection(parameters)
        self.open.append(connection)
        return connection

    def is_let_in(self, token, user=""):
        try:
            self.connect(token, user)
        except pika.exceptions.ProbableAuthenticationError:
            return False
        return True

    def http(self, path, token=None, auth=None, method="GET"):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        base = re.sub(r"//[^@]*@", "//", self.broker.http_url)
        return requests.request(method, f"{base}/api/{path}", headers=headers, auth=auth, timeout=10)
