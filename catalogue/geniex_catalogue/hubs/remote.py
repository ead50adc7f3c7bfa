"""A file on a hub that is read here and there: enough for a header, never the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geniex_catalogue.errors import TransferError
from geniex_catalogue.hubs.contract import Source
from geniex_catalogue.hubs.web import (
    BrokenError,
    Patience,
    check,
    content_range,
    host,
    persist,
    refuse_pages,
    translated,
)
from geniex_catalogue.hubs.worker import Abandon

if TYPE_CHECKING:
    import httpx2


class RemoteFile:
    """Random access over ranged requests. `size` in bytes is known after the first read."""

    def __init__(
        self, http: httpx2.Client, name: str, source: Source, abandon: Abandon, patience: Patience
    ) -> None:
        self.size: int | None = None
        self._http = http
        self._name = name
        self._source = source
        self._abandon = abandon
        self._patience = patience

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`, fewer only at the end.

        Raises HubError for a refusal, TransferError for bytes that do not come.
        """
        return persist(
            lambda: self._ask(offset, length),
            self._patience,
            sleep=self._abandon.pause,
            note=lambda reason, wait: None,
        )

    def _ask(self, offset: int, length: int) -> bytes:
        url = self._source.url
        headers = {**self._source.headers, "Range": f"bytes={offset}-{offset + length - 1}"}
        with translated(url), self._http.stream("GET", url, headers=headers) as answer:
            if answer.status_code == 416:
                return b""
            check(answer, self._name)
            refuse_pages(answer, self._name)
            start = self._place(answer)
            if start not in (0, offset):
                raise TransferError(f"`{host(url)}` sent another range of `{self._name}`")
            data = bytearray()
            for piece in answer.iter_raw():
                # a server that ignores ranges begins at 0: what lies before is let pass
                skipped = min(len(piece), max(0, offset - start))
                start += skipped
                data += piece[skipped:]
                if len(data) >= length:
                    return bytes(data[:length])
        if self.size is not None and offset + len(data) < min(self.size, offset + length):
            reason = "the answer ended early"
            raise BrokenError(reason, TransferError(f"`{self._name}`: {reason}"))
        return bytes(data)

    def _place(self, answer: httpx2.Response) -> int | None:
        """The offset that the answer begins at; learns the file's size."""
        if answer.status_code == 206:
            start, self.size = content_range(answer.headers)
            return start
        total = answer.headers.get("content-length", "")
        self.size = int(total) if total.isdecimal() else None
        return 0
