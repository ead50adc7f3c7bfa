"""Small documents of a hub, read whole over HTTP: its lists, never its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from geniex_catalogue.errors import HubError, HubNotFoundError
from geniex_catalogue.hubs.web import (
    Patience,
    client,
    explain,
    host,
    persist,
    refuse_pages,
    translated,
)
from geniex_catalogue.hubs.worker import Abandon, interruptible

if TYPE_CHECKING:
    import httpx2

_LIMIT = 32 << 20
_TRIES = 3


def fetch_document(
    url: str,
    what: str,
    *,
    headers: Mapping[str, str] | None = None,
    patience: Patience | None = None,
    limit: int = _LIMIT,
) -> tuple[bytes, Mapping[str, str]]:
    """The bytes at an address, with the headers of the answer (in lower case).

    `headers` go to that host only. Raises HubNotFoundError where nothing is there, HubError
    (HubOfflineError, HubRateLimitError), TransferError.
    """
    patience = patience or Patience()
    # who has no network learns it soon
    patience = replace(patience, attempts=min(_TRIES, patience.attempts))

    def work(abandon: Abandon) -> tuple[bytes, Mapping[str, str]]:
        with client(patience) as http:
            return persist(
                lambda: _ask(http, url, what, headers or {}, limit),
                patience,
                sleep=abandon.pause,
                note=lambda reason, wait: None,
            )

    return interruptible(work)


def _ask(
    http: httpx2.Client, url: str, what: str, headers: Mapping[str, str], limit: int
) -> tuple[bytes, Mapping[str, str]]:
    with translated(url), http.stream("GET", url, headers=dict(headers)) as answer:
        place = host(str(answer.url))
        if answer.status_code in (401, 403, 404):
            # a store of files says 403 for what is not there
            raise HubNotFoundError(f"{what} is not on `{place}` (it answered {answer.status_code})")
        if answer.status_code >= 400:
            raise explain(answer.status_code, answer.headers, place, what)
        refuse_pages(answer, what)
        data = bytearray()
        for piece in answer.iter_raw():
            data += piece
            if len(data) > limit:
                raise HubError(f"{what} on `{place}` is larger than {limit} bytes")
        return bytes(data), {key.lower(): value for key, value in answer.headers.items()}
