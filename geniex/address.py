"""Where the server listens, as users write it: a host, `host:port` or `:port`, a scheme before it.

The base address that OpenAI clients take, with `/v1` at its end, is understood too.
An IPv6 address stands in brackets where a port follows.
"""

import ipaddress
import re
from dataclasses import dataclass, replace
from typing import Literal, cast

from geniex_catalogue.errors import UsageError

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 18181

_EXPECTED = "give a host, `host:port` or `http://host:port`"
_ADDRESS = re.compile(
    r"(?:(?P<scheme>https?)://)?(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s/:@?#\[\]]*))"
    r"(?::(?P<port>\d{1,5}))?(?:/+(?:v1/*)?)?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Address:
    """A place to listen at, or to call; port 0 is any free one."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    scheme: Literal["http", "https"] = "http"

    @property
    def url(self) -> str:
        """`http://host:port`, without a slash at its end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return False

    def reached(self) -> "Address":
        """Where a client on this machine calls what listens here: nobody calls `0.0.0.0`."""
        here = {"0.0.0.0": "127.0.0.1", "::": "::1"}
        return replace(self, host=here.get(self.host, self.host))


def parse_address(text: str, default_port: int = DEFAULT_PORT) -> Address:
    """Read an address; what is left out is the default. Raises UsageError."""
    clean = text.strip()
    if clean.count(":") > 1 and "[" not in clean and "://" not in clean:
        clean = f"[{clean}]"  # an IPv6 address alone
    found = _ADDRESS.fullmatch(clean)
    if found is None or not clean:
        raise UsageError(f"`{text}` is no address", hint=_EXPECTED)
    if found["six"] is not None:
        _check_six(found["six"], text)
    port = int(found["port"]) if found["port"] else default_port
    if port > 65535:
        raise UsageError(f"`{text}`: there is no port {port}", hint="ports go from 0 to 65535")
    scheme = cast(Literal["http", "https"], (found["scheme"] or "http").lower())
    return Address(found["six"] or found["host"] or DEFAULT_HOST, port, scheme)


def _check_six(host: str, text: str) -> None:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        raise UsageError(f"`{text}` is no address", hint=_EXPECTED) from None
