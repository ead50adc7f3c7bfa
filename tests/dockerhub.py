"""A registry on loopback that answers like Docker Hub: tokens, manifests, blobs on another host."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.hubserver import HubServer

AI = "application/vnd.docker.ai."
GGUF, TEMPLATE = f"{AI}gguf.v3", f"{AI}chat.template.jinja"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
_PATH = re.compile(r"/v2/([^/]+/[^/]+)/(manifests|blobs)/([^?]+)")


class Registry:
    """The registry; blobs are sent by `hub`'s CDN.

    `lasts` is how many seconds a token is good for, as it says; the registry counts `tokens` and
    takes only the last one. `seen` are the paths that were asked for, and with which token.
    """

    def __init__(self, hub: HubServer) -> None:
        self.blobs = hub.add("docker", {}).files
        self.cdn = hub.cdn
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.headers: dict[str, str] = {}
        self.lasts = 300
        self.tokens = 0
        self.seen: list[tuple[str, str]] = []
        handler = type("Handler", (_Handler,), {"registry": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def blob(self, data: bytes) -> str:
        """Keep a blob, and give its digest."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.blobs[digest] = data
        return digest

    def layer(self, kind: str, data: bytes, name: str | None = None) -> dict[str, Any]:
        """A layer for a manifest."""
        entry: dict[str, Any] = {"mediaType": kind, "digest": self.blob(data), "size": len(data)}
        return entry | ({"annotations": {"org.cncf.model.filepath": name}} if name else {})

    def put(self, repo: str, tag: str, document: Mapping[str, Any], kind: str = MANIFEST) -> str:
        """Put a manifest there under a tag and under its digest, which is the answer."""
        data = json.dumps({"schemaVersion": 2, "mediaType": kind, **document}).encode()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.manifests[repo, tag] = self.manifests[repo, digest] = (kind, data)
        return digest

    def model(
        self,
        repo: str,
        tag: str,
        *layers: dict[str, Any],
        quantization: str | None = "Q4_K_M",
    ) -> str:
        """Put a model there."""
        config = json.dumps({"config": {"format": "gguf", "quantization": quantization}}).encode()
        kind = f"{AI}model.config.v0.1+json"
        described = {"mediaType": kind, "digest": self.blob(config), "size": len(config)}
        return self.put(repo, tag, {"config": described, "layers": list(layers)})


@contextmanager
def running(hub: HubServer) -> Iterator[Registry]:
    """A registry for as long as the block."""
    registry = Registry(hub)
    try:
        yield registry
    finally:
        registry.server.shutdown()
        registry.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    registry: Registry
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""

    def do_GET(self) -> None:
        """Answer."""
        registry, address = self.registry, urlsplit(self.path)
        given = self.headers.get("authorization", "")
        registry.seen.append((address.path, given))
        if address.path == "/token":
            registry.tokens += 1
            scope = parse_qs(address.query)["scope"][0]
            token = {"token": f"{scope}#{registry.tokens}", "expires_in": registry.lasts}
            self.answer(200, json.dumps(token).encode(), {})
            return
        found = _PATH.fullmatch(address.path)
        if found is None:
            self.answer(404, b"", {})
        elif given != f"Bearer repository:{found[1]}:pull#{registry.tokens}":
            realm = f'realm="{registry.url}/token",service="registry.docker.io"'
            scope = f'scope="repository:{found[1]}:pull"'
            self.answer(401, b"{}", {"www-authenticate": f"Bearer {realm},{scope}"})
        elif found[2] == "manifests":
            self.manifest(found[1], found[3])
        else:
            self.blob(found[3])

    def manifest(self, repo: str, reference: str) -> None:
        """A manifest with its digest."""
        if not any(name == repo for name, _ in self.registry.manifests):
            self.answer(401, b"{}", {"www-authenticate": 'Bearer realm="x"'})
        elif (repo, reference) not in self.registry.manifests:
            self.answer(404, b"{}", {})
        else:
            kind, data = self.registry.manifests[repo, reference]
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            headers = {"content-type": kind, "docker-content-digest": digest}
            self.answer(200, data, headers | self.registry.headers)

    def blob(self, digest: str) -> None:
        """Send readers to the CDN."""
        if digest not in self.registry.blobs:
            self.answer(404, b"{}", {})
        else:
            self.answer(307, b"", {"location": f"{self.registry.cdn}/x/docker/{digest}?sig=s3cret"})

    def answer(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
        """Send an answer."""
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
