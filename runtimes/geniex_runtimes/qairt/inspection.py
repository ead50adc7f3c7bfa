"""What context binaries hold, asked in a child process: a crash there is an error message here."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geniex_catalogue.errors import BundleError, LoadError
from geniex_runtimes import children
from geniex_runtimes.qairt import native

# SoC, by the number in a context binary -> its HTP architecture
SOC_ARCH = {
    30: 68,  # SM8350
    35: 68,  # QCM6490
    36: 69,  # SM8450
    37: 68,  # SC8280X
    42: 69,  # SM8475
    43: 73,  # SM8550
    57: 75,  # SM8650
    60: 73,  # Snapdragon X Elite
    66: 73,  # QCS8550
    69: 79,  # SM8750
    77: 73,  # QCS9100
    82: 75,  # QCS8300
    87: 81,  # SM8850
    88: 81,  # Snapdragon X2 Elite
}
_TIMEOUT = 120.0
_MODULE = "geniex_runtimes.qairt.qnn_system"


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """An input or output; value = (stored + offset) * scale, both None where it is not encoded.

    `dtype` is numpy's name of the elements; `offset` is QNN's, the negative of a zero point.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None
    offset: int | None


@dataclass(frozen=True, slots=True)
class GraphFacts:
    """A graph of a context binary, with its inputs and outputs in their order."""

    name: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]


@dataclass(frozen=True, slots=True)
class BinaryFacts:
    """A context binary: the QAIRT that built it, such as 2.51.0, the SoC, and its graphs."""

    path: Path
    build: str
    soc_model: int | None
    htp_arch: int | None
    graphs: tuple[GraphFacts, ...]


def inspect(binaries: Sequence[Path], libraries: Path) -> tuple[BinaryFacts | None, ...]:
    """What binaries hold, by the system library in the folder `libraries`; nothing is loaded.

    None stands for one whose description has a form that is not known here. Raises BundleError
    for one that QNN refuses or crashes on, LoadError where the library itself does not work.
    """
    answers = _ask(binaries, libraries / native.library_name("QnnSystem"))
    found: list[BinaryFacts | None] = []
    for binary, answer in zip(binaries, answers, strict=True):
        if refused := answer.get("refused"):
            raise BundleError(binary, f"is no context binary that can be read: {refused}")
        facts = answer.get("facts")
        found.append(_facts(binary, facts) if facts is not None else None)
    return tuple(found)


def _ask(binaries: Sequence[Path], library: Path) -> list[dict[str, Any]]:
    command = children.command(_MODULE, str(library), *map(str, binaries))
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise LoadError(f"`{library.name}` did not answer within {_TIMEOUT:.0f} s") from exc
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b'{"')]
    if len(answers) == len(binaries):
        return answers
    if done.returncode < 0 or answers:
        raise BundleError(
            binaries[len(answers)], f"makes `{library.name}` crash (exit code {done.returncode})"
        )
    words = done.stderr.decode("utf-8", "replace").strip().splitlines()
    raise LoadError(
        f"`{library.name}` cannot be asked: {words[-1] if words else 'no answer'}",
        hint="install the extra `qairt` again",
    )


def _facts(path: Path, facts: dict[str, Any]) -> BinaryFacts:
    soc = facts["soc_model"]
    graphs = tuple(
        GraphFacts(
            graph["name"],
            tuple(map(_tensor, graph["inputs"])),
            tuple(map(_tensor, graph["outputs"])),
        )
        for graph in facts["graphs"]
    )
    build = str(facts["build"]).removeprefix("v")
    return BinaryFacts(path, ".".join(build.split(".")[:3]), soc, SOC_ARCH.get(soc), graphs)


def _tensor(facts: dict[str, Any]) -> TensorFacts:
    return TensorFacts(
        facts["name"], tuple(facts["shape"]), facts["dtype"], facts["scale"], facts["offset"]
    )
