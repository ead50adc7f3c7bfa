"""A hub on loopback that sends one large file as fast as the kernel can.

It answers like the Hugging Face hub: a listing with size and sha256, and a redirect to another port
where the bytes are, whole or by ranges. `/sent` tells how many bytes of the file were sent.
"""

import json
import os
import re
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

REPO = "bench/model"
COMMIT = "5eed" * 10
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_PIECE = 4 << 20


class _Handler(BaseHTTPRequestHandler):
    """One connection, to the hub or to where its bytes are."""

    protocol_version = "HTTP/1.1"
    file: ClassVar[Path]
    sha256: ClassVar[str]
    bytes_at: ClassVar[str]
    sent: ClassVar[int] = 0
    counting: ClassVar[threading.Lock] = threading.Lock()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on stderr."""

    def do_GET(self) -> None:
        """Answer by the path."""
        size = self.file.stat().st_size
        if self.path.startswith("/api/"):
            lfs = {"size": size, "sha256": self.sha256, "pointerSize": 134}
            sibling = {"rfilename": self.file.name, "size": size, "blobId": "0" * 40, "lfs": lfs}
            self.answer_json({"id": REPO, "sha": COMMIT, "siblings": [sibling]})
        elif self.path == "/sent":
            self.answer_json(_Handler.sent)
        elif "/resolve/" in self.path:
            self.send_response(302)
            self.send_header("location", f"{self.bytes_at}/{self.file.name}?signature=1")
            self.send_header("x-linked-size", str(size))
            self.send_header("x-linked-etag", f'"{self.sha256}"')
            self.send_header("content-length", "0")
            self.end_headers()
        else:
            self.send_file(size)

    def answer_json(self, value: object) -> None:
        """An answer of JSON."""
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_file(self, size: int) -> None:
        """The file's bytes, or the range that was asked for."""
        asked = _RANGE.fullmatch(self.headers.get("range", ""))
        first = int(asked[1]) if asked else 0
        end = min(int(asked[2]) + 1, size) if asked and asked[2] else size
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("content-range", f"bytes {first}-{end - 1}/{size}")
        self.send_header("etag", f'"{self.sha256}"')
        self.send_header("accept-ranges", "bytes")
        self.send_header("content-length", str(end - first))
        self.end_headers()
        self.wfile.flush()
        with self.file.open("rb") as source:
            try:
                while first < end:
                    count = os.sendfile(
                        self.connection.fileno(), source.fileno(), first, min(end - first, _PIECE)
                    )
                    first += count
                    with self.counting:
                        _Handler.sent += count
            except ConnectionError:
                self.close_connection = True


class _Server(ThreadingHTTPServer):
    """A server whose clients may leave when they like."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """Tell all errors but a client that has left."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def get_request(self) -> tuple[socket.socket, object]:
        """The next connection, without timeouts: `sendfile` takes a blocking one."""
        connection, address = super().get_request()
        connection.setblocking(True)
        return connection, address


def main(words: list[str]) -> None:
    """Serve the file of a path and sha256 until stdin ends; print the hub's address."""
    _Handler.file, _Handler.sha256 = Path(words[0]), words[1]
    servers = [_Server(("127.0.0.1", 0), _Handler) for _ in range(2)]
    hub, bytes_at = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
    _Handler.bytes_at = bytes_at
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print(hub, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1:])
