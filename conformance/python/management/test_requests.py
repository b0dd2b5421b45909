"""What is no path of the API, what a page or a list of metrics is not asked for, and requests whose end is unclear."""

import base64
import contextlib
import socket
import urllib.parse

import pytest

LIMIT_SECS = 10


@pytest.fixture
def sent(api):
    """Sends octets as they are; answers all that came back until the connection was closed, or None if it was not."""
    place = urllib.parse.urlsplit(api.base)
    login = base64.b64encode(f"{api.user}:{api.password}".encode()).decode()

    def send(line, *headers, body=b""):
        head = "\r\n".join([line, "Host: x", f"Authorization: Basic {login}", *headers, "", ""])
        with socket.create_connection((place.hostname, place.port), timeout=LIMIT_SECS) as peer:
            peer.sendall(head.encode() + body)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while octets := peer.recv(65536):
                    answer += octets
            return answer

    return send


def status_of(answer):
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize("path", ["/apioverview", "/apix", "/apix/overview", "/api//overview", "/nothing"])
def test_only_what_is_below_api_is_the_api(sent, path):
    assert status_of(sent(f"GET {path} HTTP/1.1", "Connection: close")) == 404
    # RabbitMQ takes it for a page.
    assert status_of(sent(f"DELETE {path} HTTP/1.1", "Connection: close")) == 405


def test_a_slash_behind_a_path_means_nothing(sent):
    assert status_of(sent("GET /api/overview/ HTTP/1.1", "Connection: close")) == 200


@pytest.mark.parametrize("path", ["/", "/index.html"])
def test_pages_can_only_be_read(sent, path):
    for method in ("POST", "PUT", "DELETE"):
        answer = sent(f"{method} {path} HTTP/1.1", "Connection: close", "Content-Length: 0")
        assert status_of(answer) == 405, answer
        assert b"\r\nallow: head, get, options\r\n" in answer.lower(), answer
    assert status_of(sent(f"OPTIONS {path} HTTP/1.1", "Connection: close")) == 200
    assert status_of(sent(f"HEAD {path} HTTP/1.1", "Connection: close")) == 200


@pytest.mark.parametrize(
    "headers",
    [
        ["Content-Length: 2", "Content-Length: 3"],
        ["Content-Length: 2, 3"],
        ["Content-Length: +2"],
        ["Content-Length: -1"],
        ["Content-Length : 2"],
        ["Transfer-Encoding: identity"],
        ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding : chunked"],
    ],
)
def test_a_request_whose_length_is_unclear_is_refused_and_nothing_behind_it_is_read(sent, vhost, headers):
    behind = b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n"
    answer = sent(f"PUT /api/queues/{vhost}/q HTTP/1.1", *headers, body=b"{}" + behind)
    assert status_of(answer) == 400, answer
    assert answer.count(b"HTTP/1.1 ") == 1, answer


@pytest.mark.parametrize("lengths", [["Content-Length: 5", "Transfer-Encoding: chunked"], ["Transfer-Encoding: chunked", "Content-Length: 5"]])
def test_nothing_behind_a_request_of_two_lengths_is_read(sent, api, vhost, lengths):
    """Whoever counts by the other length takes it for a part of this request."""
    behind = f"DELETE /api/queues/{vhost}/kept HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    api.put(f"queues/{vhost}/kept", {"durable": True})
    answer = sent(f"PUT /api/queues/{vhost}/q HTTP/1.1", *lengths, body=b"0\r\n\r\n" + behind)
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert api.get(f"queues/{vhost}/kept").status == 200
