"""A hub on loopback that answers like the Hugging Face hub and its CDN, with faults on demand."""

import hashlib
import json
import re
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import quote, unquote

Place = Literal["api", "resolve", "cdn"]

COMMIT = "c0ffee" * 6 + "c0ff"
_API = re.compile(r"/api/models/([^/]+/[^/?]+)(?:/(revision|tree)/([^/?]+))?(?:\?.*)?")
_RESOLVE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/([^?]+)")
_CDN = re.compile(r"/x/([^/]+)/([^?]+)")
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one answer.

    `status` replaces the answer, `headers` are added, `body` changes the bytes. `cut` and `stall`
    are after how many bytes of the body the connection ends or falls silent. Without `length` the
    end of the body is the end of the connection. `bare` leaves ranges out of account, `careless`
    their condition; `most` is the longest range that is given. With `drip` the body comes byte by
    byte, so many seconds apart. `then` is called before the answer.
    """

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Callable[[bytes], bytes] = lambda data: data
    cut: int | None = None
    stall: int | None = None
    length: bool = True
    bare: bool = False
    careless: bool = False
    most: int | None = None
    drip: float | None = None
    then: Callable[[], object] = lambda: None


@dataclass
class Repo:
    """A repository: its files, who may read it, and how much its listing says.

    `gated` and `private` need `token`; without `facts` neither listing nor headers tell size and
    hash, as with some mirrors.
    """

    files: dict[str, bytes]
    commit: str = COMMIT
    gated: bool = False
    private: bool = False
    token: str = "hf_secret"
    facts: bool = True


@dataclass(frozen=True)
class Seen:
    """A request that came in."""

    place: Place
    method: str
    path: str
    headers: Mapping[str, str]


class HubServer:
    """The hub and, on another port, its CDN.

    `served` counts the bytes of files that were sent. `pace` is bytes per second of a body; None
    means at once.
    """

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.faults: dict[Place, list[Fault]] = defaultdict(list)
        self.seen: list[Seen] = []
        self.served = 0
        self.pace: int | None = None
        self.closing = threading.Event()
        self.counting = threading.Lock()
        self._servers = [self._listen(), self._listen()]
        self.url, self.cdn = (f"http://127.0.0.1:{s.server_address[1]}" for s in self._servers)

    def _listen(self) -> ThreadingHTTPServer:
        server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def close(self) -> None:
        """End everything, stalled answers too."""
        self.closing.set()
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def add(self, name: str, files: Mapping[str, bytes], **facts: object) -> Repo:
        """Put a repository on the hub; `facts` are fields of `Repo`."""
        self.repos[name] = repo = Repo(dict(files), **facts)  # type: ignore[arg-type]
        return repo

    def requests(self, place: Place) -> list[Seen]:
        """The requests that came to one place, in order."""
        return [seen for seen in self.seen if seen.place == place]

    def next_fault(self, place: Place) -> Fault | None:
        """Take the fault that is next in line."""
        return self.faults[place].pop(0) if self.faults[place] else None


@contextmanager
def running() -> Iterator[HubServer]:
    """A hub for as long as the block."""
    hub = HubServer()
    try:
        yield hub
    finally:
        hub.close()


class _Server(ThreadingHTTPServer):
    """A server whose clients may leave when they like."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Tell all errors but a client that has left."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    hub: HubServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""

    def do_HEAD(self) -> None:
        """As GET, without a body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer, with the next fault of the place if there is one."""
        api, resolve = _API.fullmatch(self.path), _RESOLVE.match(self.path)
        place: Place = "api" if api else "resolve" if resolve else "cdn"
        headers = {key.lower(): value for key, value in self.headers.items()}
        self.hub.seen.append(Seen(place, self.command, self.path, headers))
        self.place = place
        self.fault = self.hub.next_fault(place) or Fault()
        self.fault.then()
        try:
            if self.fault.status is not None:
                self.answer(self.fault.status, b"", dict(self.fault.headers))
            elif api:
                self.listing(api[1], api[2], unquote(api[3] or ""))
            elif resolve:
                self.resolve(resolve[1], unquote(resolve[2]), unquote(resolve[3]))
            elif (cdn := _CDN.match(self.path)) and self.holds(unquote(cdn[1]), unquote(cdn[2])):
                self.bytes_of(self.hub.repos[unquote(cdn[1])], unquote(cdn[2]))
            else:
                self.answer(404, b"", {})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def holds(self, name: str, file: str) -> bool:
        """Whether a repository is there and has a file."""
        return name in self.hub.repos and file in self.hub.repos[name].files

    def refusal(self, name: str, *, reading: bool) -> bool:
        """Answer as the hub does when a repository is not to be had; whether it was so."""
        repo, given = self.hub.repos.get(name), self.headers.get("authorization")
        allowed = repo is not None and given == f"Bearer {repo.token}"
        if given is not None and given == "Bearer wrong":
            said = "Invalid credentials in Authorization header"
            self.answer(401, b"", {"x-error-message": said})
        elif repo is None or (repo.private and not allowed):
            if given is None:
                self.answer(401, b"", {"x-error-message": "Invalid username or password."})
            else:
                self.answer(404, b"", {"x-error-code": "RepoNotFound"})
        elif repo.gated and reading and not allowed:
            headers = {"x-error-code": "GatedRepo", "x-error-message": "Access is restricted."}
            self.answer(401 if given is None else 403, b"", headers)
        else:
            return False
        return True

    def listing(self, name: str, kind: str | None, revision: str) -> None:
        """The repository's information, or its tree."""
        if self.refusal(name, reading=False):
            return
        repo = self.hub.repos[name]
        if revision not in ("", "main", repo.commit):
            self.answer(404, b"", {"x-error-code": "RevisionNotFound"})
            return
        if kind == "tree":
            tree = [
                {"type": "file", "path": file, "size": len(data), "oid": "0" * 40}
                for file, data in repo.files.items()
            ]
            self.json(tree)
            return
        siblings = [_sibling(repo, file) for file in repo.files]
        self.json({"id": name, "sha": repo.commit, "siblings": siblings})

    def resolve(self, name: str, revision: str, file: str) -> None:
        """Send large files' readers to the CDN, as the hub does."""
        if self.refusal(name, reading=True):
            return
        repo = self.hub.repos[name]
        if file not in repo.files or revision not in ("main", repo.commit):
            self.answer(404, b"", {"x-error-code": "EntryNotFound"})
        elif not repo.facts:
            self.bytes_of(repo, file)
        else:
            data = repo.files[file]
            place = f"{quote(name, safe='')}/{quote(file)}"
            headers = {
                "location": f"{self.hub.cdn}/x/{place}?signature=s3cret",
                "x-repo-commit": repo.commit,
                "x-linked-size": str(len(data)),
                "x-linked-etag": f'"{hashlib.sha256(data).hexdigest()}"',
            }
            self.answer(302, b"", headers | dict(self.fault.headers))

    def bytes_of(self, repo: Repo, file: str) -> None:
        """A file's bytes, the range that was asked for if it is still the same file."""
        data = repo.files[file]
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        headers = {"etag": etag, "accept-ranges": "bytes", "content-type": "binary/octet-stream"}
        asked = _RANGE.fullmatch(self.headers.get("range", ""))
        same = self.fault.careless or self.headers.get("if-range", etag) == etag
        status, begin = 200, 0
        if asked and same and not self.fault.bare:
            begin = int(asked[1])
            end = min(int(asked[2] or len(data)), len(data) - 1)
            end = min(end, begin + (self.fault.most or len(data)) - 1)
            if begin >= len(data):
                self.answer(416, b"", {"content-range": f"bytes */{len(data)}"})
                return
            status = 206
            headers["content-range"] = f"bytes {begin}-{end}/{len(data)}"
            data = data[: end + 1]
        self.answer(status, self.fault.body(data[begin:]), headers | dict(self.fault.headers))

    def json(self, value: object) -> None:
        """An answer of JSON."""
        data = self.fault.body(json.dumps(value).encode())
        headers = {"content-type": "application/json"} | dict(self.fault.headers)
        self.answer(200, data, headers)

    def answer(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        """Send headers and, unless the fault hinders it, the body."""
        if "date" in headers:
            self.send_response_only(status)
        else:
            self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if self.fault.length:
            self.send_header("content-length", str(len(data)))
        else:
            self.send_header("connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command == "HEAD":
            return
        limits = [limit for limit in (self.fault.cut, self.fault.stall) if limit is not None]
        if self.fault.drip is None:
            self.send(data[: min(limits, default=len(data))])
        for at in range(0 if self.fault.drip is None else len(data)):
            self.send(data[at : at + 1])
            if self.hub.closing.wait(self.fault.drip):
                return
        if self.fault.stall is not None:
            self.hub.closing.wait()
        if limits:
            self.close_connection = True

    def send(self, data: bytes) -> None:
        """Send a body, at the hub's pace."""
        for at in range(0, len(data), 1 << 16):
            piece = data[at : at + (1 << 16)]
            if self.place != "api":
                # before it goes out: whoever has a file finds it counted
                with self.hub.counting:
                    self.hub.served += len(piece)
            self.wfile.write(piece)
            if self.hub.pace is not None:
                time.sleep(len(piece) / self.hub.pace)


def _sibling(repo: Repo, file: str) -> dict[str, object]:
    """A file as the listing shows it."""
    data = repo.files[file]
    if not repo.facts:
        return {"rfilename": file, "size": 0}
    lfs = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "pointerSize": 134}
    return {"rfilename": file, "size": len(data), "blobId": "0" * 40, "lfs": lfs}
