"""Sockets that reach a server: connected to it, or to the HTTP proxy on the way to it.

Under TLS the proxy makes a tunnel (CONNECT); otherwise each request names its whole URL.
"""

from __future__ import annotations

import asyncio
import re
import socket

from specbench.proxy import Proxy
from specbench.traffic.address import Address
from specbench.traffic.connection import Reading
from specbench.traffic.kernel_clock import SO_TIMESTAMPNS

LONGEST_ANSWER = 65536
"""Bytes of a proxy's answer to CONNECT."""
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")


async def reached(reading: Reading, *, stamped: bool) -> socket.socket:
    """Give a connected socket, `stamped` when the kernel is to say when its bytes arrive.

    Raises:
        OSError: The server or the proxy refused. Where the proxy is stays unsaid.
    """
    address = reading.address
    if address.proxy is None:
        return await _connected(reading, stamped=stamped)
    try:
        made = await _connected(reading, stamped=stamped)
    except OSError as error:
        raise ConnectionError(f"the proxy takes no connection: {type(error).__name__}") from None
    if address.tls:
        try:
            await _tunnel(made, address, address.proxy)
        except BaseException:
            made.close()
            raise
    return made


async def _connected(reading: Reading, *, stamped: bool) -> socket.socket:
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    for family, kind, protocol, _, place in await reading.places():
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if stamped:
            made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        try:
            await loop.sock_connect(made, place)
        except OSError as error:
            made.close()
            failure = error
            continue
        except BaseException:
            made.close()
            raise
        return made
    raise failure or OSError(f"{reading.address.host} has no address")


async def _tunnel(made: socket.socket, address: Address, proxy: Proxy) -> None:
    """Have the proxy pass everything on to the server (RFC 9110, 9.3.6)."""
    loop = asyncio.get_running_loop()
    host = f"[{address.host}]" if ":" in address.host else address.host
    target = f"{host}:{address.port}"
    told = "".join(f"{name}: {value}\r\n" for name, value in proxy.headers.items())
    asked = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{told}\r\n"
    await loop.sock_sendall(made, asked.encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        read = await loop.sock_recv(made, 4096)
        answer += read
        if not read or len(answer) > LONGEST_ANSWER:
            raise ConnectionError("the proxy gave no whole answer to CONNECT")
    status = _STATUS.match(answer)
    if status is None or not status[1].startswith(b"2"):
        said = f"HTTP {status[1].decode()}" if status else "no HTTP"
        raise ConnectionError(f"the proxy refused a tunnel to the server: {said}")
