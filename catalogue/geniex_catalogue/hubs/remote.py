"""A file on a hub that is read here and there: enough for a header, never the weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from geniex_catalogue.hubs.answer import broken, steady, total
from geniex_catalogue.hubs.contract import Source
from geniex_catalogue.hubs.web import (
    Patience,
    check,
    content_range,
    host,
    persist,
    refuse_pages,
    require_content,
    translated,
)
from geniex_catalogue.hubs.worker import Abandon

if TYPE_CHECKING:
    import httpx2


class RemoteFile:
    """Random access over ranged requests.

    `size` in bytes is as the hub states it, else known after the first read. `note` is told why an
    answer was of no use, and the pause in seconds.
    """

    def __init__(
        self,
        http: httpx2.Client,
        name: str,
        source: Source,
        abandon: Abandon,
        patience: Patience,
        *,
        size: int | None = None,
        note: Callable[[str, float], None] = lambda reason, wait: None,
    ) -> None:
        self.size = size
        self._http = http
        self._name = name
        self._source = source
        self._abandon = abandon
        self._patience = patience
        self._note = note

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from `offset`, fewer only at the end.

        Raises HubError for a refusal, TransferError for bytes that do not come.
        """
        data = bytearray()

        def work() -> None:
            while len(data) < length and not self._ends_at(offset + len(data)):
                data.extend(self._ask(offset + len(data), length - len(data)))

        persist(
            work,
            self._patience,
            sleep=self._abandon.pause,
            note=self._note,
            gained=lambda: len(data),
        )
        return bytes(data)

    def _ends_at(self, offset: int) -> bool:
        return self.size is not None and offset >= self.size

    def _ask(self, offset: int, length: int) -> bytes:
        """One request: some of the bytes from `offset`, at the end of the file none."""
        url = self._source.url
        headers = {**self._source.headers, "Range": f"bytes={offset}-{offset + length - 1}"}
        with translated(url), self._http.stream("GET", url, headers=headers) as answer:
            if answer.status_code == 416:
                if self._is_end(answer, offset):
                    return b""
                place = host(str(answer.url))
                raise broken(self._name, f"`{place}` answered 416: it has no such range")
            check(answer, self._name)
            require_content(answer, self._name)
            refuse_pages(answer, self._name)
            start = self._place(answer, offset)
            data = bytearray()
            for piece in steady(answer, answer.iter_raw(), self._patience):
                # a server that ignores ranges begins at 0: what lies before is let pass
                skipped = min(len(piece), max(0, offset - start))
                start += skipped
                data += piece[skipped:]
                if len(data) >= length:
                    return bytes(data[:length])
        if not data and not self._ends_at(offset):
            raise broken(self._name, f"`{host(url)}` sent nothing of it")
        if self.size is None and answer.status_code == 200:
            # the end of the answer is the end of the file: nothing else tells it
            self.size = offset + len(data)
        return bytes(data)

    def _is_end(self, answer: httpx2.Response, offset: int) -> bool:
        """Whether a refused range lies behind the end of the file, as its server states it."""
        stated = answer.headers.get("content-range", "").removeprefix("bytes */")
        if self.size is None and stated.isdecimal() and int(stated) <= offset:
            self.size = int(stated)
        return self._ends_at(offset)

    def _place(self, answer: httpx2.Response, offset: int) -> int:
        """The offset that the answer begins at; learns the file's size. Raises BrokenError."""
        place, start = host(str(answer.url)), 0
        if answer.status_code == 206:
            first, _ = content_range(answer.headers)
            if first != offset:
                raise broken(self._name, f"`{place}` sent another range than asked for")
            start = first
        size = total(answer)
        if None not in (size, self.size) and size != self.size:
            reason = f"`{place}` has {size} bytes of it, {self.size} were stated"
            raise broken(self._name, reason)
        self.size = size if self.size is None else self.size
        return start
