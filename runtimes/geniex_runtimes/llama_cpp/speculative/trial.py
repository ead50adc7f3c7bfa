"""A pair's first draft is made in a child process: what kills llama.cpp must not kill the user's.

The headers (pair.py) rule out every pair that is known to end the process. This catches the rest:
one prompt, one draft and one verification, as the engine makes them. The outcome is remembered for
as long as the files, the build and the way of loading stay the same; `pairs.json` in the data
folder may be deleted to try again.

A pair of more than TRIAL_BYTES is not tried. The child needs the weights a second time, in memory
and in waiting, and files of that size are published models, not experiments.
"""

import argparse
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from geniex_catalogue.errors import GenieXError, SpeculativeError
from geniex_runtimes.llama_cpp import library, survival
from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.context import Context, ContextOptions
from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Rows
from geniex_runtimes.llama_cpp.speculative.model_drafter import ModelDrafter
from geniex_runtimes.llama_cpp.speculative.pair import Mode
from geniex_runtimes.llama_cpp.survival import Record
from geniex_runtimes.llama_cpp.weights import Weights

FILE = "pairs.json"
TRIAL_BYTES = 1 << 30
# seconds: Python's start, both loads from a slow disk, three decodes
TIMEOUT = 60.0

# how many pairs are remembered
_KEPT = 64
# bytes of a file's beginning that tell it from others: metadata, vocabulary
_HEAD = 1 << 20
_CONTEXT = 256
_PROMPT = tuple(range(1, 9))
_DRAFT = 3


@dataclass(frozen=True, slots=True)
class Pair:
    """What is tried: files (of shards all, in order) and how they are loaded.

    `draft` is empty where the heads are in the target's file.
    """

    target: tuple[Path, ...]
    draft: tuple[Path, ...]
    mode: Mode
    extra_buffers: bool = True
    devices: tuple[str, ...] = ()
    gpu_layers: int = -1

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in (*self.target, *self.draft))

    def key(self, package: Path) -> str:
        """Names the pair on a build: another file, build or way of loading has another name."""
        facts = [self.mode, str(self.extra_buffers), *self.devices, str(self.gpu_layers)]
        for path in (*self.target, *self.draft):
            found = path.stat()
            with path.open("rb") as file:
                head = hashlib.sha256(file.read(_HEAD)).hexdigest()
            facts.append(f"{found.st_size} {found.st_mtime_ns} {head}")
        return survival.build_key(package, *facts)

    def command(self) -> list[str]:
        """The child that tries it."""
        words = [f"--mode={self.mode}", f"--gpu-layers={self.gpu_layers}"]
        words += ["--no-extra-buffers"] * (not self.extra_buffers)
        words += [f"--device={device}" for device in self.devices]
        # `=` and `--`, so that a path may begin with a dash
        words += [f"--draft={path}" for path in self.draft]
        words += ["--", *(str(path) for path in self.target)]
        return survival.child("geniex_runtimes.llama_cpp.speculative.trial", *words)


def check(
    pair: Pair,
    data_dir: Path | None,
    *,
    command: Sequence[str] | None = None,
    timeout: float = TIMEOUT,
) -> None:
    """Try a pair in a child unless that has been done, and refuse it if it fails.

    Without `data_dir` nothing is remembered. `command` stands in for the child. A failure that
    Python reports (a file that does not load) is not remembered: it may be another's fault.
    Raises SpeculativeError with the reason.
    """
    try:
        if pair.size > TRIAL_BYTES:
            return
        package = survival.package_folder()
        if package is None:
            raise SpeculativeError("llama-cpp-python is not installed")
        key = pair.key(package)
    except OSError as exc:
        raise SpeculativeError(f"the pair's files cannot be read: {exc}") from exc
    record = Record(data_dir / FILE, "pairs", _KEPT) if data_dir is not None else None
    outcome = record.read().get(key) if record is not None else None
    if outcome is None:
        outcome, final = survival.run(command or pair.command(), timeout, "it")
        if final and record is not None and (problem := record.add(key, outcome)):
            survival.log.warning("the trial of a speculative pair is %s", problem)
    if not outcome.passed:
        raise SpeculativeError(
            f"a trial of this pair in another process failed: {outcome.reason}",
            hint=f"delete `{record.path}` to try it again" if record is not None else None,
        )


def run(pair: Pair) -> None:
    """Load, evaluate a prompt, draft, verify and roll back, in this process.

    Raises GenieXError where llama.cpp says no; dies where it does not.
    """
    native = library.load()
    target = Weights(
        native,
        pair.target,
        devices=pair.devices,
        gpu_layers=pair.gpu_layers,
        extra_buffers=pair.extra_buffers,
        heads=not pair.draft,
    )
    draft = target
    if pair.draft:
        draft = Weights(
            native,
            pair.draft,
            devices=pair.devices,
            gpu_layers=pair.gpu_layers,
            extra_buffers=pair.extra_buffers,
            heads=True,
        )
    on_cpu = not pair.devices
    options = ContextOptions(
        length=_CONTEXT,
        slots=1,
        threads=1,
        on_cpu=on_cpu,
        flash_attention=on_cpu,
        outputs=1 + _DRAFT,
        rollback=0 if target.rolls_back else _DRAFT,
    )
    context = Context(native, target, options)
    draft_context = Context(native, draft, options, target=context)
    drafter = ModelDrafter(native, draft, context, draft_context, pair.mode)
    _draft_once(context, drafter, Batch(native, len(_PROMPT)))
    drafter.close()
    context.close()
    if pair.draft:
        draft.close()
    target.close()


def _draft_once(context: Context, drafter: ModelDrafter, batch: Batch) -> None:
    """One prompt, one draft, one verification that accepts nothing."""
    drafter.begin(0, 0)
    batch.add(0, 0, _PROMPT, all_logits=False)
    batch.want_logits(len(_PROMPT) - 1)
    context.decode(batch)
    drafter.process([Rows(0, 0, 0, _PROMPT)])
    last = _PROMPT[-1]
    (draft,) = drafter.draft([Ask(0, _PROMPT, last, _DRAFT, 0.0)])
    if not draft:
        raise SpeculativeError("the draft proposed nothing")
    verified = Rows(0, 0, len(_PROMPT), (last, *draft))
    batch.clear()
    batch.add(0, verified.start, verified.tokens, all_logits=True)
    context.decode(batch)
    drafter.process([verified])
    drafter.accept(0, verified, 0)
    if not context.keep(0, verified.start + 1):
        raise SpeculativeError("what was not accepted cannot be cut back")


def main() -> None:
    """The child: exit code 0 for a pair that works, 1 with the reason for one that does not."""
    parser = argparse.ArgumentParser(description="Try a target and its draft once.")
    parser.add_argument("target", nargs="+", type=Path, help="the target's file, or all its parts")
    parser.add_argument("--draft", action="append", default=[], type=Path, help="the draft's file")
    parser.add_argument("--mode", choices=get_args(Mode), required=True)
    parser.add_argument("--no-extra-buffers", action="store_true")
    parser.add_argument("--device", action="append", default=[], help="one of llama.cpp's devices")
    parser.add_argument("--gpu-layers", type=int, default=-1)
    given = parser.parse_args()
    survival.die_quietly()
    try:
        run(
            Pair(
                target=tuple(given.target),
                draft=tuple(given.draft),
                mode=given.mode,
                extra_buffers=not given.no_extra_buffers,
                devices=tuple(given.device),
                gpu_layers=given.gpu_layers,
            )
        )
    except GenieXError as exc:
        sys.exit(exc.message)


if __name__ == "__main__":
    main()
