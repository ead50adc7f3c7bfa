"""How hubs are spoken to over HTTP: the client, its patience, and what a refusal means."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from geniex_catalogue.errors import (
    GenieXError,
    HubAuthError,
    HubError,
    HubNotFoundError,
    HubOfflineError,
    HubRateLimitError,
    TransferError,
    UsageError,
)

if TYPE_CHECKING:
    import ssl

    import httpx2

T = TypeVar("T")

# where hubs are, and the variables that name other places
HUGGING_FACE = "https://huggingface.co"
AI_HUB = "https://qaihub-public-assets.s3.us-west-2.amazonaws.com/qai-hub-models"
_PLACES = {"HF_ENDPOINT": HUGGING_FACE, "GENIEX_AIHUBBASEURL": AI_HUB}

# `"api";r=0;t=55`: nothing remains, for 55 seconds
_SPENT = re.compile(r"\br\s*=\s*0\s*;\s*t\s*=\s*(\d+)")
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_PAGE = re.compile(rb"\s*<(!doctype\s+html|html)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds; `attempts` counts failures in a row that gained nothing.

    Pauses double from `first_pause` to `longest_pause`; a hub that asks for more than
    `longest_pause` is not waited for. An answer with fewer than `slowest` bytes a second over
    `stall` seconds counts as none.
    """

    connect: float = 10.0
    stall: float = 30.0
    slowest: float = 256.0
    attempts: int = 5
    first_pause: float = 1.0
    longest_pause: float = 60.0


class BrokenError(Exception):
    """Raised inside for a failure worth another try; `final` is what the user meets at last."""

    def __init__(self, reason: str, final: GenieXError, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.final = final
        self.retry_after = retry_after


def persist(
    work: Callable[[], T],
    patience: Patience,
    *,
    sleep: Callable[[float], None],
    note: Callable[[str, float], None],
    gained: Callable[[], int] = lambda: 0,
) -> T:
    """Run `work` until it does not raise BrokenError; failures that gained something do not count.

    `note` is told each reason and the pause in seconds. Raises the last failure's `final` error.
    """
    failures, best = 0, gained()
    while True:
        try:
            return work()
        except BrokenError as broken:
            if gained() - best > patience.slowest * patience.stall:
                failures, best = 0, gained()
            failures += 1
            pause = min(patience.first_pause * 2 ** (failures - 1), patience.longest_pause)
            if broken.retry_after is not None:
                pause = broken.retry_after
            if failures >= patience.attempts or pause > patience.longest_pause:
                raise broken.final from broken
            note(broken.reason, pause)
        sleep(pause)


def client(patience: Patience) -> httpx2.Client:
    """A client that takes bytes as they are, follows redirects and keeps tokens to their host.

    Proxies and SSL_CERT_FILE are taken from the environment, certificates from the OS.
    """
    import httpx2

    return httpx2.Client(
        follow_redirects=True,
        max_redirects=10,
        timeout=httpx2.Timeout(patience.stall, connect=patience.connect),
        headers={"user-agent": "geniex", "accept-encoding": "identity"},
        verify=_trust(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
    )


@lru_cache(maxsize=4)
def _trust(cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """What certificates are trusted by; made once, since reading those of the OS takes a while."""
    import httpx2

    return httpx2.create_ssl_context()


def address_from(variable: str, public: str, kind: str, hub: str) -> str:
    """The base address that an environment variable gives, else the `public` one of the hub.

    Raises UsageError, which calls it a `kind` and says that without it `hub` is asked.
    """
    address = (os.environ.get(variable) or public).rstrip("/")
    if not re.match(r"https?://[^/\s\[\]]+", address):
        raise UsageError(
            f"{variable} is `{address}`, which is no {kind}",
            hint=f"it looks like {public}; without it {hub} is asked",
        )
    return address


def host(url: str) -> str:
    """The host of an address: all of it that an error may show, since a query can hold a key."""
    return urlsplit(url).netloc.rpartition("@")[2]


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Turn the HTTP library's errors into BrokenError, HubOfflineError or HubError."""
    import httpx2

    place = host(url)
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as exc:
        raise _unreachable(place, exc) from exc
    except httpx2.TimeoutException as exc:
        reason = f"`{place}` sends nothing"
        raise BrokenError(reason, _broken(reason)) from exc
    except httpx2.TransportError as exc:
        reason = f"the connection to `{place}` broke"
        raise BrokenError(reason, _broken(reason)) from exc
    except httpx2.TooManyRedirects as exc:
        final = HubError(f"`{place}` cannot be read: {exc}")
        raise BrokenError(f"`{place}` sends in a circle", final) from exc
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as exc:
        raise HubError(f"`{place}` cannot be read: {exc}") from exc


def _broken(reason: str) -> TransferError:
    return TransferError(reason, hint="run the same command again: it goes on where it stopped")


def _unreachable(place: str, exc: Exception) -> Exception:
    text = str(exc)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return HubOfflineError(
            f"the certificate of `{place}` is not trusted: {text}",
            hint="behind an inspecting proxy, set SSL_CERT_FILE to its certificate",
        )
    final = HubOfflineError(
        f"`{place}` cannot be reached{_by_proxy(place)}: {text}",
        hint=f"check the network{_settings_of(place)}",
    )
    return BrokenError(f"`{place}` cannot be reached", final)


def _settings_of(place: str) -> str:
    """The variables that decide how a host is reached, as part of a sentence."""
    addresses = {name: os.environ.get(name) or own for name, own in _PLACES.items()}
    named = next((name for name, address in addresses.items() if host(address) == place), None)
    return " and HTTPS_PROXY" if named is None else f", HTTPS_PROXY and {named}"


def _by_proxy(place: str) -> str:
    """The proxy that the environment names for a host, as part of a sentence."""
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get("https") or proxies.get("http") or proxies.get("all")
    if not proxy or proxy_bypass(place):
        return ""
    return f" (the proxy is `{host(proxy) or proxy}`)"


def check(response: httpx2.Response, what: str) -> None:
    """Raise what a refusing answer means; `what` names the thing asked for.

    Raises BrokenError where another try may help, else a HubError.
    """
    status, place = response.status_code, host(str(response.url))
    if status < 400:
        return
    asked = response.history[0].url if response.history else response.url
    if status < 500 and status != 429 and host(str(asked)) != place:
        # the hub let us through: its signed address has expired, and the next try gets a new one
        reason = f"`{place}` answered {status}"
        raise BrokenError(reason, _broken(reason))
    raise explain(status, response.headers, place, what)


def refuse_pages(response: httpx2.Response, name: str) -> None:
    """Raise BrokenError for what is not the file's own bytes: a web page, an encoded body.

    The next answer may be the file's, as where one of several servers, or a log-in, is at fault.
    """
    place = host(str(response.url))
    if response.headers.get("content-type", "").startswith("text/html"):
        raise page_instead(place, name)
    if response.headers.get("content-encoding", "identity") != "identity":
        reason = f"`{place}` sends `{name}` encoded, against our request"
        raise BrokenError(f"`{place}` sends it encoded", TransferError(reason))


def require_content(response: httpx2.Response, name: str) -> None:
    """Raise BrokenError for an answer that is no refusal and has no content all the same."""
    if response.status_code not in (200, 206):
        reason = f"`{host(str(response.url))}` answered {response.status_code}"
        final = TransferError(f"`{name}` does not come: {reason}", hint="try again later")
        raise BrokenError(reason, final)


def page_instead(place: str, name: str) -> BrokenError:
    """The failure of a web page that came instead of a file."""
    final = TransferError(
        f"`{place}` answered with a web page instead of `{name}`",
        hint="a log-in page of the network, or a proxy? open the hub in a browser once",
    )
    return BrokenError(f"`{place}` answered with a web page", final)


def is_page(begin: bytes) -> bool:
    """Whether what begins so is a web page, whatever its headers say."""
    return _PAGE.match(begin) is not None


def content_range(headers: Mapping[str, str]) -> tuple[int | None, int | None]:
    """First byte and total length that a partial answer states; None for what it does not."""
    found = _RANGE.fullmatch(headers.get("content-range", ""))
    if found is None or int(found[2]) < int(found[1]):
        return None, None
    return int(found[1]), None if found[3] == "*" else int(found[3])


def explain(status: int, headers: Mapping[str, str], place: str, what: str) -> Exception:
    """The error behind a status that is no success, with the hub's own error code where it has one.

    A redirect that leads nowhere, or content that is none, is worth another try.
    """
    code = headers.get("x-error-code", "")
    said = headers.get("x-error-message", "")
    if status == 429:
        return _rate_limit(headers, place)
    if status == 403 and "disabled" in said:
        return HubError(f"`{what}` is switched off on `{place}`: {said}")
    if code == "GatedRepo" or status == 403:
        return HubAuthError(
            f"`{what}` is gated or private on `{place}`: {said or 'access refused'}",
            hint="accept its terms on its page, then `hf auth login` or set HF_TOKEN",
        )
    if status == 401 and said == "Invalid credentials in Authorization header":
        return HubAuthError(
            f"`{place}` does not accept the token",
            hint="`hf auth login`, or set GENIEX_HFTOKEN or HF_TOKEN to a valid token",
        )
    if status in (401, 404):
        # the hub answers 401 for names that do not exist, so as not to tell private ones
        return HubNotFoundError(
            f"`{what}` not found on `{place}`" + (", or private" if status == 401 else ""),
            hint="check the name; for a private model `hf auth login` or set HF_TOKEN"
            if status == 401
            else None,
        )
    if status == 407:
        return HubError(
            "the proxy asks for a name and a password",
            hint="set HTTPS_PROXY (or HTTP_PROXY) to `http://NAME:PASSWORD@HOST:PORT`",
        )
    reason = f"`{place}` answered {status}" + (f": {said}" if said else "")
    if status >= 500 or status == 408 or status < 400:
        return BrokenError(reason, HubError(reason, hint="try again later"), _asked_pause(headers))
    return HubError(f"{reason} for `{what}`")


def _rate_limit(headers: Mapping[str, str], place: str) -> BrokenError:
    pause = _asked_pause(headers)
    when = "later" if pause is None else f"in {pause:.0f} s"
    final = HubRateLimitError(
        f"`{place}` asks to slow down",
        hint=f"try again {when}; a token (HF_TOKEN) raises the limit",
    )
    return BrokenError("the hub asks to slow down", final, pause)


def _asked_pause(headers: Mapping[str, str]) -> float | None:
    """Seconds that the answer asks to wait: `Retry-After`, else the hub's `RateLimit`.

    None where it does not say, or names a moment that is past.
    """
    asked = headers.get("retry-after", "").strip()
    if asked.isdecimal():
        return float(asked) or None
    if asked:
        return _seconds_until(asked, headers.get("date", "")) or None
    spent = _SPENT.search(headers.get("ratelimit", ""))
    return float(spent[1]) or None if spent else None


def _seconds_until(date: str, now: str) -> float | None:
    """Seconds until an HTTP date; None for text that is not one.

    `now` is the answer's own date: our clock may be wrong.
    """
    # imported here: it is slow to import, and hubs rarely send dates
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
    try:
        present = parsedate_to_datetime(now).timestamp()
    except ValueError:
        present = time.time()
    return max(0.0, moment - present)
