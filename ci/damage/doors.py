"""The two ways in: command lines in one process after the other, and one server for all."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ci.damage.kinds import Files
from geniex_catalogue.manifest import FileRecord, Manifest

PATIENCE = 180.0  # seconds
QUESTION = "What is the capital of France?"
_ODD_TEXT = "\0\x01\x7f é ß 漢字 🙂 \U0010ffff\t\n\n\n    <|x|> [INST] <0x41> "
ODD_QUESTION = _ODD_TEXT + "a" * 700 + " 0" * 200


class CrashError(Exception):
    """The process behind a door died, or is stuck."""


@dataclass(frozen=True, slots=True)
class Result:
    """Of a command: exit code, output, complaints. Of a request: status and body (`out`)."""

    code: int
    out: str
    err: str = ""


class Commands:
    """Command lines, all in one process, for as long as that lives."""

    def __init__(self, data_dir: Path) -> None:
        command = [sys.executable, "-m", "ci.damage.command_loop"]
        environ = {**os.environ, "GENIEX_DATADIR": str(data_dir), "GENIEX_OFFLINE": "1"}
        # what the process itself says (an assertion of native code) is worth reading
        self._words = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env=environ,
        )

    def run(self, *args: str) -> Result:
        """Run one. Raises CrashError."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        patience = threading.Timer(PATIENCE, process.kill)
        patience.start()
        try:
            process.stdin.write(json.dumps(args).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = b""
        stuck = not patience.is_alive()
        patience.cancel()
        if line:
            return Result(**json.loads(line))
        self.close()
        how = f"gave no answer in {PATIENCE:g} s" if stuck else f"ended with {process.returncode}"
        raise CrashError(f"`geniex {args[0]}` {how}")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._words.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Server:
    """A server that is asked for models of its store."""

    def __init__(self, url: str) -> None:
        self._url = url

    def chat(self, name: str) -> Result:
        """Ask a model, and if it answers once more in a way that takes all it has.

        The first answer that is none counts. Raises CrashError.
        """
        plain = {
            "model": name,
            "messages": [{"role": "user", "content": QUESTION}],
            "max_tokens": 8,
            "temperature": 0,
        }
        odd = {
            **plain,
            "messages": [{"role": "user", "content": ODD_QUESTION}],
            "temperature": 1.5,
            "max_tokens": 40,
            "logprobs": True,
            "top_logprobs": 5,
            "response_format": {"type": "json_object"},
            "keep_alive": 0,
        }
        answer = self._ask("/v1/chat/completions", plain)
        if answer.code == 200:
            answer = self._ask("/v1/chat/completions", odd)
        return self._healthy(answer)

    def models(self) -> Result:
        """The list of models, the damaged one among them. Raises CrashError."""
        return self._ask("/v1/models", None)

    def vectors(self, name: str) -> Result:
        """Ask an embedding model. Raises CrashError."""
        body = {"model": name, "input": [QUESTION, ODD_QUESTION], "keep_alive": 0}
        return self._healthy(self._ask("/v1/embeddings", body))

    def _healthy(self, answer: Result) -> Result:
        if self._ask("/health", None).code >= 500:
            raise CrashError("the server is not healthy")
        return answer

    def _ask(self, path: str, body: dict[str, Any] | None) -> Result:
        request = urllib.request.Request(
            self._url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return Result(response.status, response.read().decode())
        except urllib.error.HTTPError as error:
            return Result(error.code, error.read().decode())
        except OSError as error:
            raise CrashError(f"the server is gone, or stuck: {error}") from error


def stored(data_dir: Path, name: str, files: Files) -> Path:
    """Put files into a store as a model of that name; gives the first one's path."""
    folder = data_dir / "models" / name
    folder.mkdir(parents=True)
    records = [FileRecord(file, len(data), precision="Q8_0") for file, data in files.items()]
    manifest = Manifest(name, "gguf", {"Q8_0": records[0]}, tuple(records[1:]))
    for file, data in files.items():
        (folder / file).write_bytes(data)
    # a trial's memory goes by time too
    stamp = time.time_ns()
    os.utime(folder / records[0].name, ns=(stamp, stamp))
    (folder / "geniex.json").write_text(manifest.to_json(), encoding="utf-8")
    return folder / records[0].name
