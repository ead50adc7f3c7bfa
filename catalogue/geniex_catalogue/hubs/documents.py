"""Small documents of a hub, read whole over HTTP: its lists, never its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from geniex_catalogue.errors import HubError, HubNotFoundError
from geniex_catalogue.hubs.answer import steady
from geniex_catalogue.hubs.retelling import Retelling
from geniex_catalogue.hubs.web import (
    Patience,
    client,
    explain,
    host,
    is_page,
    page_instead,
    persist,
    refuse_pages,
    translated,
)
from geniex_catalogue.hubs.worker import Abandon, interruptible

if TYPE_CHECKING:
    import httpx2

_LIMIT = 32 << 20
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What an address answered; the names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    data: bytes


def ask(
    url: str,
    what: str,
    *,
    headers: Mapping[str, str] | None = None,
    patience: Patience | None = None,
    limit: int = _LIMIT,
) -> Answer:
    """The answer of an address, whatever its status below 500; `headers` go to that host only.

    Raises HubError (HubOfflineError, HubRateLimitError) for a hub that cannot answer, TransferError
    for one that does not end, or answers with a web page.
    """
    patience = patience or Patience()
    # who has no network learns it soon
    patience = replace(patience, attempts=min(_TRIES, patience.attempts))

    retelling = Retelling(what)

    def work(abandon: Abandon) -> Answer:
        with client(patience) as http:
            return persist(
                lambda: _ask(http, url, what, headers or {}, limit, patience),
                patience,
                sleep=abandon.pause,
                note=retelling.note,
            )

    return interruptible(work, retelling)


def fetch_document(url: str, what: str, *, patience: Patience | None = None) -> bytes:
    """The bytes at an address. Raises HubNotFoundError where nothing is there, and as `ask`."""
    answer = ask(url, what, patience=patience)
    if answer.status in (401, 403, 404):
        # a store of files says 403 for what is not there
        raise HubNotFoundError(f"{what} is not on `{host(url)}` (it answered {answer.status})")
    if answer.status >= 400:
        raise HubError(f"`{host(url)}` answered {answer.status} for {what}")
    return answer.data


def _ask(
    http: httpx2.Client,
    url: str,
    what: str,
    headers: Mapping[str, str],
    limit: int,
    patience: Patience,
) -> Answer:
    with translated(url), http.stream("GET", url, headers=dict(headers)) as answer:
        place = host(str(answer.url))
        status = answer.status_code
        if status >= 500 or status in (408, 429) or 200 < status < 400:
            raise explain(answer.status_code, answer.headers, place, what)
        if answer.status_code < 400:
            refuse_pages(answer, what)
        data = bytearray()
        for piece in steady(answer, answer.iter_raw(), patience):
            data += piece
            if len(data) > limit:
                raise HubError(f"{what} on `{place}` is larger than {limit} bytes")
        if status == 200 and is_page(bytes(data[:100])):
            raise page_instead(place, what)
        known = {key.lower(): value for key, value in answer.headers.items()}
        return Answer(answer.status_code, known, bytes(data))
