"""Certificates for tests, made by openssl when they are needed."""

import pathlib
import subprocess

KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*arguments, stdin=None):
    done = subprocess.run(["openssl", *map(str, arguments)], input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


class Authority:
    """An authority, and the certificates it has made."""

    def __init__(self, directory, name="authority"):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.certificate, self.key = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        subject = ["-subj", f"/CN={name}"]
        openssl("req", "-x509", *KEY, "-keyout", self.key, "-out", self.certificate, "-days", "30", *subject)

    def issue(self, name, subject, names="DNS:localhost,IP:127.0.0.1", days="30"):
        """Certificate and key."""
        request, certificate, key = (self.directory / f"{name}.{kind}" for kind in ("csr", "pem", "key"))
        openssl("req", *KEY, "-keyout", key, "-out", request, "-subj", subject)
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={names}\n")
        made = ["-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-days", days, "-extfile", extensions]
        openssl("x509", "-req", "-in", request, *made, "-out", certificate)
        return certificate, key
