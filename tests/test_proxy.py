"""Proxies from their URLs, and what of them is hidden."""

from __future__ import annotations

from base64 import b64decode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.proxy import Proxy, proxy_secrets
from specbench.redaction import redaction

WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("url", "proxy", "plain"),
    [
        ("http://gate.example:3128", Proxy("gate.example", 3128), "http://gate.example:3128"),
        ("http://[::1]:81/", Proxy("::1", 81), "http://[::1]:81"),
        (
            # RFC 7617, section 2.
            "http://Aladdin:open%20sesame@gate.example:3128",
            Proxy(
                "gate.example",
                3128,
                {"Proxy-Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="},
            ),
            "http://gate.example:3128",
        ),
    ],
)
def test_a_url_gives_place_and_credentials(url: str, proxy: Proxy, plain: str) -> None:
    assert Proxy.of(url) == proxy
    assert proxy.url == plain
    assert "Basic" not in repr(proxy)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "gate.example:3128",
        "http://gate.example",
        "https://gate.example:3128",
        "socks5://gate.example:1080",
        "http://:3128",
        "http://user:hunter22@gate.example:port",
        "http://gate.example:3128/path",
        "http://gate.example:3128?a=b",
    ],
)
def test_what_is_no_proxy_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match=r"^no http://host:port URL of a proxy$"):
        Proxy.of(url)


@given(WORDS.filter(lambda word: ":" not in word), WORDS)
def test_credentials_of_any_kind_arrive_and_are_hidden(user: str, password: str) -> None:
    url = f"http://{quote(user, safe='')}:{quote(password, safe='')}@gate.example:3128/"
    told = Proxy.of(url).headers["Proxy-Authorization"]
    token = told.removeprefix("Basic ")
    assert b64decode(token).decode() == f"{user}:{password}"
    secrets = proxy_secrets(url)
    assert {url, url[:-1], token, password, quote(password, safe="")} <= secrets
    hidden = redaction([], [], secrets).text(f"asked {url} with {token} twice")
    assert hidden.replace("*", "").split() == ["asked", "with", "twice"] or len(token) < 6
