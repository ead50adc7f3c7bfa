"""What the server is to show of a bundle: answers, streams, a cancel, a crash, a clean end."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ci.environment import child_environment
from ci.snapdragon.report import Facts, FailedError, expect
from ci.snapdragon.terminal import QUESTION, WORD, Geniex

_PATIENCE = 900.0  # seconds
_WORKER = "geniex_runtimes.qairt.worker"


class Served:
    """A server with the bundle in memory."""

    def __init__(self, url: str, process: "subprocess.Popen[str]", model: str) -> None:
        self._url = url
        self.process = process
        self._model = model

    def ask(self, question: str = QUESTION, **fields: Any) -> Any:
        """The object of an answer; where there is none, the error's."""
        try:
            with self._open(question, fields) as response:
                return json.load(response)
        except urllib.error.HTTPError as exc:
            with exc:
                return json.load(exc)

    def stream(self, question: str = QUESTION, **fields: Any) -> Iterator[Any]:
        """The events of an answer; closing the iterator leaves the server."""
        with self._open(question, {**fields, "stream": True}) as response:
            for line in response:
                data = line.decode().removeprefix("data: ").strip()
                if line.startswith(b"data: ") and data != "[DONE]":
                    yield json.loads(data)

    def _open(self, question: str, fields: dict[str, Any]) -> Any:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": question}],
            "temperature": 0,
            "max_completion_tokens": 128,
            "enable_think": False,
            **fields,
        }
        request = urllib.request.Request(
            f"{self._url}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        return urllib.request.urlopen(request, timeout=_PATIENCE)

    def workers(self) -> list[Any]:
        """The processes that hold a bundle for the server."""
        import psutil

        children = psutil.Process(self.process.pid).children(recursive=True)
        return [child for child in children if _WORKER in child.cmdline()]


@contextmanager
def serving(geniex: Geniex) -> Iterator[Served]:
    """A server on a free port, ended at the end. Raises FailedError where it does not listen."""
    command = geniex.command("serve", geniex.model, "--port", "0")
    process = subprocess.Popen(
        command,
        env=child_environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    try:
        seen = []
        for line in process.stderr or ():
            seen.append(line)
            if line.startswith("Listening on "):
                yield Served(line.split()[2], process, geniex.model)
                return
        raise FailedError(f"the server does not listen: {''.join(seen)[-500:]}")
    finally:
        process.terminate()
        process.wait(_PATIENCE)
        if process.stderr is not None:
            process.stderr.close()


def content(answer: Any) -> str:
    """What was said. Raises FailedError for an error."""
    if "choices" not in answer:
        raise FailedError(f"the server says: {answer}")
    return str(answer["choices"][0]["message"]["content"])


def answers(server: Served) -> Facts:
    """One answer whole and streamed, the same."""
    whole = server.ask()
    expect(WORD in content(whole), f"the answer is {content(whole)!r}")
    pieces = [
        event["choices"][0]["delta"].get("content") or ""
        for event in server.stream()
        if event.get("choices")
    ]
    expect("".join(pieces) == content(whole), f"streamed it is {''.join(pieces)!r}")
    return {"on": whole["geniex"]["devices"], "pieces": sum(map(bool, pieces))}


def stops(server: Served) -> Facts:
    """A stop string ends the answer before it."""
    answer = server.ask(stop=[WORD])
    expect(WORD not in content(answer), f"the answer is {content(answer)!r}")
    return {"finish_reason": answer["choices"][0]["finish_reason"]}


def seeds_repeat(server: Served) -> Facts:
    """The same seed gives the same sampled answer, where the cache held the same before."""
    said = []
    for _ in range(2):
        content(server.ask("Tell me a story.", max_completion_tokens=16))
        said.append(content(server.ask(temperature=1.0, seed=7)))
    one, two = said
    expect(one == two, f"{one!r} and {two!r}")
    return {}


def cancels(server: Served) -> Facts:
    """A client that leaves frees the model: the next answer comes soon."""
    events = server.stream("Tell me a story.", max_completion_tokens=512)
    next(events)
    events.close()  # type: ignore[attr-defined]
    start = time.monotonic()
    expect(WORD in content(server.ask()), "the next answer is wrong")
    return {"next answer after s": round(time.monotonic() - start, 2)}


def survives(server: Served) -> Facts:
    """A worker that is killed is an error of that request, and the next one is answered."""
    events = server.stream("Tell me a story.", max_completion_tokens=512)
    next(events)
    for worker in server.workers():
        worker.kill()
    rest = list(events)
    expect(any("error" in event for event in rest), "the killed answer ended without an error")
    expect(WORD in content(server.ask()), "the next answer is wrong")
    return {"error": next(event["error"]["code"] for event in rest if "error" in event)}


def leaves_nothing(server: Served) -> Facts:
    """No worker outlives the server."""
    import psutil

    workers = server.workers()
    expect(bool(workers), "no worker runs")
    server.process.terminate()
    server.process.wait(_PATIENCE)
    _, alive = psutil.wait_procs(workers, timeout=30)
    expect(not alive, f"{len(alive)} workers live on")
    return {"workers ended": len(workers)}
