"""An issuer of access tokens: its keys and its signatures are made by openssl."""

import base64
import json
import pathlib
import subprocess
import time

# What a token is for.
AUDIENCE = "rabbitmq"


def openssl(*arguments, stdin=None):
    done = subprocess.run(["openssl", *map(str, arguments)], input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


class Issuer:
    """One with an RSA key; `public` is the file that a broker is given."""

    def __init__(self, directory, name="key"):
        self.id = name
        self.private, self.public = (pathlib.Path(directory) / f"{name}.{kind}" for kind in ("private", "pem"))
        openssl("genrsa", "-out", self.private, "2048")
        openssl("rsa", "-in", self.private, "-pubout", "-out", self.public)
        self.public.chmod(0o644)

    def token(self, *scopes, header=None, seconds=300, **claims):
        """A good token, unless the header or a claim makes it another; a claim of None is left out."""
        claims = {"aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + seconds, "scope": list(scopes)} | claims
        return self.signed({"alg": "RS256", "kid": self.id, "typ": "JWT"} | (header or {}), claims)

    def signed(self, header, claims, sign=None):
        parts = [{name: value for name, value in part.items() if value is not None} for part in (header, claims)]
        text = b".".join(encoded(json.dumps(part).encode()) for part in parts)
        sign = sign or (lambda data: openssl("dgst", "-sha256", "-sign", self.private, stdin=data))
        return (text + b"." + encoded(sign(text))).decode()
