"""An engine in a process of its own, which does a list of operations: native code may end it.

`run` starts this file, which takes the operations as JSON and gives a result for each.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geniex_runtimes.qairt import native
from geniex_runtimes.qairt.device import installed_libraries
from geniex_runtimes.qairt.engine import Engine, EngineError, EngineName, EngineOptions
from geniex_runtimes.qairt.worker import engine

ROOT = Path(__file__).parents[3]
Result = dict[str, Any]


def run(name: str, operations: Sequence[dict[str, Any]]) -> list[Result]:
    """The results of operations, done in order with the engine of this name."""
    order = {"name": name, "operations": operations}
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        input=json.dumps(order).encode(),
        capture_output=True,
        cwd=ROOT,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-2000:]
    results: list[Result] = json.loads(done.stdout.splitlines()[-1])
    return results


def load(folder: Path, *, sliding: bool = False) -> dict[str, Any]:
    """The operation that loads a bundle in the place of what is loaded."""
    return {"do": "load", "folder": str(folder), "sliding": sliding}


def greedy(ids: Sequence[int], count: int, **options: Any) -> dict[str, Any]:
    """The operation that evaluates a prompt and takes up to `count` of the likeliest tokens.

    With `abort_at` it is aborted when so many are there, with `fail_at` an error is raised then.
    """
    return {"do": "greedy", "ids": list(ids), "count": count} | options


class _Doing:
    def __init__(self, name: EngineName, libraries: Path) -> None:
        self._name = name
        self._libraries = libraries
        self._loaded: Engine | None = None

    @property
    def _engine(self) -> Engine:
        assert self._loaded is not None
        return self._loaded

    def do(self, operation: dict[str, Any]) -> Result:
        kind = operation.pop("do")
        try:
            if kind == "load":
                return self._load(**operation)
            if kind == "greedy":
                return self._greedy(**operation)
            if kind == "reset":
                self._engine.reset()
            else:
                getattr(self._engine, kind)(Path(operation["folder"]))
            return {}
        except (EngineError, ZeroDivisionError) as exc:
            return {"error": f"{type(exc).__name__}: {exc}"}

    def close(self) -> None:
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None

    def _load(self, folder: str, sliding: bool) -> Result:
        self.close()
        options = EngineOptions(self._libraries, sliding)
        self._loaded = engine(self._name, Path(folder), options)
        return {"context": self._loaded.context_length, "vocab": self._loaded.vocab_size}

    def _greedy(
        self,
        ids: list[int],
        count: int,
        ends: Sequence[int] = (),
        reuse: bool = True,
        abort_at: int | None = None,
        fail_at: int | None = None,
    ) -> Result:
        tokens: list[int] = []

        def choose(logits: Any) -> int | None:
            assert logits.shape == (self._engine.vocab_size,) and logits.dtype == "float32"
            if len(tokens) == fail_at:
                raise ZeroDivisionError("of the caller")
            if len(tokens) == abort_at:
                self._engine.abort()
            tokens.append(int(logits.argmax()))
            logits[:] = 0  # it is ours for the moment
            return None if len(tokens) == count or tokens[-1] in ends else tokens[-1]

        kept = self._engine.evaluate(ids, choose, reuse=reuse)
        return {"tokens": tokens, "kept": kept}


def main() -> None:
    """Do what is asked on standard input."""
    order = json.loads(sys.stdin.read())
    libraries, _ = installed_libraries()
    native.prepare(libraries)
    doing = _Doing(order["name"], libraries)
    results = [doing.do(operation) for operation in order["operations"]]
    doing.close()
    sys.stdout.write(f"\n{json.dumps(results)}\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
