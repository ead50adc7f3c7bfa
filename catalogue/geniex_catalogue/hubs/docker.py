"""Docker Hub: models as OCI artifacts, whose files are layers that are named by their sha256.

GENIEX_DOCKERBASEURL is another registry of the same kind, such as a mirror.
"""

import hashlib
import json
import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from geniex_catalogue import precision
from geniex_catalogue.errors import (
    ChecksumError,
    HubAuthError,
    HubError,
    HubNotFoundError,
    UsageError,
)
from geniex_catalogue.hubs.contract import Delivery, Item, Source
from geniex_catalogue.hubs.docker_manifest import (
    DIGEST,
    GGUF,
    INDEXES,
    MANIFESTS,
    TEMPLATE,
    Layer,
    choose_entry,
    gguf_name,
    is_index,
    label_of,
    no_weights,
    read_layers,
)
from geniex_catalogue.hubs.documents import Answer, ask
from geniex_catalogue.hubs.web import Patience, address_from, host
from geniex_catalogue.manifest import check_file_name
from geniex_catalogue.names import ModelRef, storable
from geniex_catalogue.resolver import TEMPLATE_ENDING

REGISTRY = "https://registry-1.docker.io"
LATEST = "latest"
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
# seconds before its end that a token counts as ended
_EARLY = 20.0


class DockerHub:
    """Models on Docker Hub, which anybody may read."""

    name = "docker"

    def __init__(self, patience: Patience | None = None) -> None:
        self._patience = patience
        self._base = registry_address()

    def deliver(self, ref: ModelRef, revision: str | None = None) -> Delivery:
        """The files of a model: its weights, and the chat template that came with them.

        `revision` is a tag, in the place of the name's own, or the one that an earlier delivery
        has stated. Raises HubNotFoundError, HubError,
        TransferError, ChecksumError, and UsageError for what is no tag.
        """
        if ref.file is not None:
            raise UsageError(
                f"`{ref}` names a file, and models on Docker Hub have tags", hint="name a tag"
            )
        tag, _, exact = (revision or ref.tag or ref.precision or LATEST).partition("@")
        access = Access(self._base, ref.name, self._patience)
        digest, manifest = self._manifest(access, ref, exact or tag)
        layers = read_layers(manifest)
        weights = [layer for layer in layers if layer.media_type == GGUF]
        if not weights:
            raise no_weights(ref, layers)
        label = ref.precision or self._label(access, ref, manifest)
        named = [(gguf_name(i, len(weights), layer), layer) for i, layer in enumerate(weights, 1)]
        template = next((layer for layer in layers if layer.media_type == TEMPLATE), None)
        if template is not None:
            named.append((f"chat_template{TEMPLATE_ENDING}", template))
        return Delivery(
            hub=self.name,
            label=label,
            revision=f"{tag}@{digest}",
            format="gguf",
            items=tuple(self._item(access, label, name, layer) for name, layer in named),
        )

    def _item(self, access: "Access", label: str, name: str, layer: Layer) -> Item:
        url = f"{self._base}/v2/{access.repo}/blobs/sha256:{layer.sha256}"
        # each tag has a folder: their files have the same names
        full = check_file_name(storable(f"{label}/{name}"))
        return Item(full, Source(url, access), layer.size or None, layer.sha256)

    def _manifest(self, access: "Access", ref: ModelRef, tag: str) -> tuple[str, Mapping[str, Any]]:
        """A tag's manifest with its digest; of an index, the manifest for this machine."""
        digest, document = self._document(access, ref, f"manifests/{tag}", f"`{ref}`")
        if not is_index(document):
            return digest, document
        chosen = choose_entry(document, platform.machine(), ref)
        digest, document = self._document(access, ref, f"manifests/{chosen}", f"`{ref}`")
        if is_index(document):
            raise HubError(f"`{ref}` is an index of indexes, which is not understood")
        return digest, document

    def _document(
        self, access: "Access", ref: ModelRef, path: str, what: str
    ) -> tuple[str, Mapping[str, Any]]:
        """A JSON document of a repository with its digest, which is checked."""
        url = f"{self._base}/v2/{ref.name}/{path}"
        answer = access.read(url, what, {"accept": ", ".join((*INDEXES, *MANIFESTS, "*/*"))})
        digest = f"sha256:{hashlib.sha256(answer.data).hexdigest()}"
        asked = DIGEST.search(path)
        stated = asked[0] if asked else answer.headers.get("docker-content-digest", digest)
        if digest != stated:
            raise ChecksumError(
                f"{what} arrived wrong: its manifest has the digest {digest}, not {stated}",
                hint="run the same command again; if it stays so, the hub or a proxy is at fault",
            )
        try:
            document = json.loads(answer.data)
        except (ValueError, RecursionError) as exc:
            raise HubError(f"`{host(url)}` did not answer with a manifest of {what}") from exc
        if not isinstance(document, dict):
            raise HubError(f"`{host(url)}` did not answer with a manifest of {what}")
        return digest, document

    def _label(self, access: "Access", ref: ModelRef, manifest: Mapping[str, Any]) -> str:
        """The precision of a model without a tag: as its configuration says."""
        config = manifest.get("config")
        digest = config.get("digest") if isinstance(config, dict) else None
        if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
            return precision.DEFAULT
        _, document = self._document(access, ref, f"blobs/{digest}", f"`{ref}`")
        return label_of(document)


class Access(Mapping[str, str]):
    """The headers that give access to a repository: a token that anybody gets.

    It does not last: a request that begins later gets a newer one.
    """

    def __init__(
        self,
        base: str,
        repo: str,
        patience: Patience | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.repo = repo
        self._base = base
        self._patience = patience
        self._clock = clock
        self._challenge: dict[str, str] | None = None
        self._token = ""
        self._ends = 0.0

    def __getitem__(self, key: str) -> str:
        if key not in list(self):
            raise KeyError(key)
        if self._clock() >= self._ends:
            self._renew()
        return f"Bearer {self._token}"

    def __iter__(self) -> Iterator[str]:
        return iter(("authorization",) if self._challenge else ())

    def __len__(self) -> int:
        return 1 if self._challenge else 0

    def read(self, url: str, what: str, headers: Mapping[str, str]) -> Answer:
        """A document, with a token where the registry wants one. Raises HubNotFoundError."""
        answer = ask(url, what, headers={**self, **headers}, patience=self._patience)
        if answer.status == 401 and self._challenge is None:
            self._challenge = _challenge(answer.headers.get("www-authenticate", ""), self.repo)
            answer = ask(url, what, headers={**self, **headers}, patience=self._patience)
        if answer.status in (401, 403, 404):
            private = ", or private" if answer.status in (401, 403) else ""
            raise HubNotFoundError(
                f"{what} not found on `{host(url)}`{private}",
                hint="check the name and the tag; private models cannot be pulled",
            )
        if answer.status != 200:
            raise HubError(f"`{host(url)}` answered {answer.status} for {what}")
        return answer

    def _renew(self) -> None:
        challenge = self._challenge or {}
        query = [(key, challenge[key]) for key in ("service", "scope") if key in challenge]
        url = f"{challenge['realm']}?{urlencode(query)}"
        answer = ask(url, "an access token", patience=self._patience)
        try:
            facts = json.loads(answer.data) if answer.status == 200 else {}
            self._token = str(facts.get("token") or facts["access_token"])
            lasts = float(facts.get("expires_in", 60))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
            raise HubAuthError(f"`{host(url)}` gave no token to read `{self.repo}`") from exc
        self._ends = self._clock() + max(0.0, lasts - _EARLY)


def registry_address() -> str:
    """The registry to ask: GENIEX_DOCKERBASEURL, else Docker Hub itself. Raises UsageError."""
    return address_from("GENIEX_DOCKERBASEURL", REGISTRY, "address of a registry", "Docker Hub")


def _challenge(header: str, repo: str) -> dict[str, str]:
    """Where to get a token, as the registry's refusal says."""
    kind, _, rest = header.partition(" ")
    found = dict(_CHALLENGE.findall(rest))
    if kind.lower() != "bearer" or not found.get("realm", "").startswith(("https://", "http://")):
        raise HubAuthError(f"the registry does not say how `{repo}` may be read")
    return {"scope": f"repository:{repo}:pull", **found}
