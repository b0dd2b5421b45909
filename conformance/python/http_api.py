"""A small client of the HTTP API: what was answered, status and all, and nothing raised for what was refused."""

import base64
import json
import urllib.error
import urllib.parse
import urllib.request

LIMIT_SECS = 10


class Answer:
    """Status, headers, and the body as JSON if it is some."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"Answer({self.status}, {self.body[:300]!r})"


class Api:
    """The API as one user sees it."""

    def __init__(self, url, user=None, password=None):
        parts = urllib.parse.urlsplit(url)
        self.base = f"{parts.scheme}://{parts.hostname}:{parts.port}/api/"
        self.user = user if user is not None else urllib.parse.unquote(parts.username)
        self.password = password if password is not None else urllib.parse.unquote(parts.password)
        self._url = url

    def as_user(self, user, password):
        return Api(self._url, user, password)

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def put(self, path, body=None):
        return self.request("PUT", path, body if body is not None else {})

    def post(self, path, body=None):
        return self.request("POST", path, body if body is not None else {})

    def delete(self, path, **headers):
        return self.request("DELETE", path, headers=headers)

    def request(self, method, path, body=None, headers=None, kind="application/json"):
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method)
        if self.user is not None:
            credentials = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            request.add_header("Authorization", f"Basic {credentials}")
        if data is not None:
            request.add_header("Content-Type", kind)
        for name, value in (headers or {}).items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_SECS) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as refused:
            return Answer(refused.code, refused.headers, refused.read())


def quoted(name):
    """A name as one segment of a path."""
    return urllib.parse.quote(name, safe="")
