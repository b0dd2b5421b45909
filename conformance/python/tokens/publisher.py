"""Where an issuer publishes its keys: a small site over HTTPS, with a certificate that the test makes."""

import http.server
import json
import ssl
import threading

from .issuer import encoded, openssl


class Authority:
    """Signs certificates of sites."""

    def __init__(self, directory):
        self.directory = directory
        self.certificate, self.key = directory / "authority.pem", directory / "authority.key"
        made = ["-newkey", "rsa:2048", "-nodes", "-keyout", self.key, "-out", self.certificate, "-days", "30"]
        openssl("req", "-x509", *made, "-subj", "/CN=authority", "-addext", "keyUsage=keyCertSign,digitalSignature")
        self.certificate.chmod(0o644)

    def issue(self, host):
        """A file with the certificate of a host, and its key."""
        request, certificate, key = (self.directory / f"{host}.{kind}" for kind in ("csr", "pem", "key"))
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={host}")
        extensions = self.directory / f"{host}.ext"
        extensions.write_text(f"subjectAltName=DNS:{host}\n")
        by = ["-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days", "30", "-extfile", extensions]
        openssl("x509", "-req", "-in", request, *by, "-out", certificate)
        return certificate, key


class Site:
    """Answers at each path with what was put there; `asked` has the paths that somebody wanted."""

    def __init__(self, certificate, key):
        self.answers = {}
        self.asked = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                site.asked.append(self.path)
                site.may_answer.wait(60)
                status, body = site.answers.get(self.path.split("?")[0], (404, b"{}"))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                """Who does not like the certificate hangs up."""

        self.server = Server(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        # Not while accepting: a client that says nothing would keep the others out.
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path, host="localhost"):
        return f"https://{host}:{self.port}{path}"

    def put(self, path, value, status=200):
        self.answers[path] = (status, json.dumps(value).encode())

    def stop(self):
        self.may_answer.set()
        self.server.shutdown()
        self.server.server_close()


def set_of(*issuers):
    """The keys of these issuers as they are published."""
    return {"keys": [key_of(issuer) for issuer in issuers]}


def key_of(issuer):
    text = openssl("rsa", "-in", issuer.private, "-noout", "-modulus").decode()
    modulus = bytes.fromhex(text.strip().removeprefix("Modulus="))
    key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": issuer.id}
    return key | {"n": encoded(modulus).decode(), "e": "AQAB"}
