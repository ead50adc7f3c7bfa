"""The Hugging Face hub: its listings, tokens and addresses; its bytes come by `transfer`."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from geniex_catalogue.errors import (
    GGUFError,
    HubAuthError,
    HubError,
    HubNotFoundError,
    HubOfflineError,
    UsageError,
)
from geniex_catalogue.fileset import ModelFile
from geniex_catalogue.gguf import GGUFHeader, parse_header
from geniex_catalogue.hubs.answer import steady
from geniex_catalogue.hubs.contract import Listing, Source
from geniex_catalogue.hubs.remote import RemoteFile
from geniex_catalogue.hubs.retelling import Retelling
from geniex_catalogue.hubs.web import (
    HUGGING_FACE,
    Patience,
    client,
    explain,
    host,
    persist,
    translated,
)
from geniex_catalogue.hubs.worker import Abandon, interruptible
from geniex_catalogue.names import ModelRef
from geniex_catalogue.offline import require_network

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo, RepoSibling


class HuggingFace:
    """Repositories of models on the Hugging Face hub, or on the mirror that HF_ENDPOINT names.

    The token is the one given, else GENIEX_HFTOKEN, HF_TOKEN, or what `hf auth login` has kept.
    """

    name = "huggingface"

    def __init__(self, token: str | None = None, patience: Patience | None = None) -> None:
        self._patience = patience or Patience()
        self._given = token
        self._token: str | None = None

    @property
    def endpoint(self) -> str:
        """The hub's address, read each time: the variable may be set after import.

        Raises UsageError where HF_ENDPOINT is none.
        """
        address = (os.environ.get("HF_ENDPOINT") or HUGGING_FACE).rstrip("/")
        if not re.match(r"https?://[^/\s\[\]]+", address):
            raise UsageError(
                f"HF_ENDPOINT is `{address}`, which is no address of a hub",
                hint=f"it looks like {HUGGING_FACE}; without it the hub itself is asked",
            )
        return address

    def list(self, ref: ModelRef, revision: str | None) -> Listing:
        """The files of a model's repository at one commit. Raises a HubError."""
        require_network(f"`{ref.name}` is not here")
        # a listing is small: who has no network learns it soon
        patience = replace(self._patience, attempts=min(3, self._patience.attempts))

        retelling = Retelling(ref.name)

        def work(abandon: Abandon) -> "ModelInfo":
            self._token = _token(self._given)
            return persist(
                lambda: self._ask(ref, revision),
                patience,
                sleep=abandon.pause,
                note=retelling.note,
            )

        info = interruptible(work, retelling)
        files = tuple(_model_file(sibling) for sibling in info.siblings or ())
        return Listing(info.id, info.sha or revision or "main", files)

    def _ask(self, ref: ModelRef, revision: str | None) -> "ModelInfo":
        from huggingface_hub import HfApi

        what = ref.name if revision is None else f"{ref.name}@{revision}"
        with _understood(self.endpoint, what), _steadily(self._patience):
            return HfApi(endpoint=self.endpoint).model_info(
                ref.name,
                revision=revision,
                files_metadata=True,
                token=self._token or False,
                timeout=self._patience.stall,
            )

    def source(self, listing: Listing, file: ModelFile) -> Source:
        """Where a listed file's bytes are, pinned to the listing's commit."""
        place = f"{listing.repo}/resolve/{quote(listing.revision, safe='')}/{quote(file.name)}"
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        return Source(f"{self.endpoint}/{place}", headers)

    def header(self, listing: Listing, file: ModelFile) -> GGUFHeader:
        """The header of a listed GGUF, read by ranges; its `file_size` is true.

        Raises GGUFError, HubError or TransferError.
        """
        name = f"{listing.repo}/{file.name}"
        retelling = Retelling(name)

        def read(abandon: Abandon) -> GGUFHeader:
            with client(self._patience) as http:
                source, size = self.source(listing, file), file.size
                remote = RemoteFile(
                    http, name, source, abandon, self._patience, size=size, note=retelling.note
                )
                if size is None:
                    remote.read(0, 1)
                return parse_header(remote.read, name, remote.size)

        def work(abandon: Abandon) -> GGUFHeader:
            try:
                return read(abandon)
            except GGUFError:
                # perhaps a proxy's error: asked once more before it is believed
                return read(abandon)

        return interruptible(work, retelling)


@contextmanager
def _steadily(patience: Patience) -> Iterator[None]:
    """Have what `huggingface_hub` reads in this thread break off where it becomes a trickle."""
    import httpx2
    from huggingface_hub import get_session

    class Steady(httpx2.SyncByteStream):
        def __init__(self, answer: httpx2.Response, inner: httpx2.SyncByteStream) -> None:
            self._answer = answer
            self._inner = inner

        def __iter__(self) -> Iterator[bytes]:
            return steady(self._answer, self._inner, patience)

        def close(self) -> None:
            self._inner.close()

    ours = threading.get_ident()

    def watch(answer: httpx2.Response) -> None:
        if threading.get_ident() == ours and isinstance(answer.stream, httpx2.SyncByteStream):
            answer.stream = Steady(answer, answer.stream)

    hooks = get_session().event_hooks["response"]
    hooks.append(watch)
    try:
        yield
    finally:
        hooks.remove(watch)


def _model_file(sibling: "RepoSibling") -> ModelFile:
    """A listed file; mirrors that know no size say 0."""
    sha256 = sibling.lfs.sha256 if sibling.lfs else None
    return ModelFile(sibling.rfilename, sibling.size or None, sha256)


def _token(given: str | None) -> str | None:
    """The token to use. Raises HubAuthError when the hub's own way to one fails."""
    from huggingface_hub import constants, get_token

    own = given or os.environ.get("GENIEX_HFTOKEN") or os.environ.get("HF_TOKEN")
    if own and own.strip():
        return own.strip()
    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN:
        return None
    try:
        return get_token()
    except Exception as exc:
        raise HubAuthError(f"no token could be had: {exc}", hint="set HF_TOKEN") from exc


@contextmanager
def _understood(endpoint: str, what: str) -> Iterator[None]:
    """Turn what `huggingface_hub` raises into our errors, or BrokenError for another try."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    try:
        with translated(endpoint):
            try:
                yield
            except HfHubHTTPError as exc:
                answer = exc.response
                raise explain(answer.status_code, answer.headers, host(endpoint), what) from exc
    except OfflineModeIsEnabled as exc:
        raise HubOfflineError(
            f"`{what}` is not here, and offline mode forbids fetching it",
            hint="unset HF_HUB_OFFLINE",
        ) from exc
    except HFValidationError as exc:
        raise HubNotFoundError(f"`{what}` cannot be on `{host(endpoint)}`: {exc}") from exc
    except (ValueError, LookupError, TypeError) as exc:
        raise HubError(
            f"`{host(endpoint)}` did not answer with a listing of `{what}`",
            hint="a log-in page of the network, or a wrong HF_ENDPOINT?",
        ) from exc
