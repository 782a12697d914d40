"""A certificate that the client trusts."""

from __future__ import annotations

import shutil
import ssl
import subprocess

import pytest

from tests.loopback_proxy import NAMED


@pytest.fixture(scope="session")
def _certified(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("certificate")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    making = (
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout {key} "
        f"-out {certificate} -addext subjectAltName=IP:127.0.0.1,DNS:{NAMED}"
    )
    subprocess.run(making.split(), check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def server_side(_certified: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Give what a server of loopback speaks TLS with, trusted for the length of the test."""
    monkeypatch.setenv("SSL_CERT_FILE", _certified[0])
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(*_certified)
    return made
