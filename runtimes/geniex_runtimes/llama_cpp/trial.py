"""A first load is made in a child process: what kills llama.cpp must not kill the user's.

Our own checks (gguf.py, speculative/pair.py) rule out what is known to end the process. This
catches the rest, in a file that is not known yet and in a pair's first draft. The outcome is
remembered for as long as the files, the build and the way of loading stay the same; `trials.json`
in the data folder may be deleted to try again.

Of large files only the shapes are tried: to read the weights a second time would take as long as
the load itself, and as much memory. What the numbers of a file, its vocabulary and its graph do to
llama.cpp shows without them.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from geniex_catalogue.errors import GenieXError, LoadError
from geniex_catalogue.resolver import ResolvedModel
from geniex_runtimes import children
from geniex_runtimes.contract import PromptPiece
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.llama_cpp import library, survival
from geniex_runtimes.llama_cpp.batch import Batch
from geniex_runtimes.llama_cpp.context import Context, ContextOptions
from geniex_runtimes.llama_cpp.embedding import PoolingContext, pooling_of
from geniex_runtimes.llama_cpp.speculative.drafter import Ask, Rows
from geniex_runtimes.llama_cpp.speculative.model_drafter import ModelDrafter
from geniex_runtimes.llama_cpp.speculative.pair import Mode
from geniex_runtimes.llama_cpp.survival import Outcome, Record
from geniex_runtimes.llama_cpp.weights import Placement, Weights
from geniex_runtimes.options import ComputeUnit, FlashAttention, KvType, LoadOptions

Alone: TypeAlias = Literal["plain", "embedding"]
PLAIN: Final = "plain"
EMBEDDING: Final = "embedding"

FILE = "trials.json"
# bytes: of a pair above, and of a model alone above, the weights are not read
TRIAL_BYTES = 1 << 30
MODEL_BYTES = 4 << 30
# seconds: Python's start, three decodes; and bytes that a slow disk reads in one
TIMEOUT = 60.0
_SLOW_DISK = 20 << 20

_DAMAGED = "get the file again, from where it was published"
_BUSY = "the machine may be short of memory, or busy: run it again, or with `--trust`"
_UNKNOWN = "unknown model architecture"
_NEWER = "a newer geniex may know it, or the file is damaged"

# how many outcomes are remembered
_KEPT = 256
# bytes of a file's beginning that tell it from others: metadata, vocabulary
_HEAD = 1 << 20
_CONTEXT = 256
_PROMPT = tuple(range(1, 9))
_DRAFT = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried: files (of shards all, in order) and how they are loaded.

    `draft` is empty where the heads are in the target's file, and where a model is tried alone: to
    answer (PLAIN), or to give vectors. Of `shapes` the weights are left out.
    """

    target: tuple[Path, ...]
    draft: tuple[Path, ...]
    mode: Mode | Alone
    extra_buffers: bool = True
    compute: ComputeUnit = "cpu"
    devices: tuple[str, ...] = ()
    gpu_layers: int = -1
    kv_type: KvType = "f16"
    flash_attention: FlashAttention = "auto"
    shapes: bool = False

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(path.stat().st_size for path in (*self.target, *self.draft))

    @property
    def alone(self) -> bool:
        """Whether a model is tried, and not a pair."""
        return self.mode in get_args(Alone)

    @property
    def large(self) -> bool:
        """Whether the weights are too many to be read twice."""
        return self.size > (MODEL_BYTES if self.alone else TRIAL_BYTES)

    @property
    def patience(self) -> float:
        """Seconds that it may take."""
        return TIMEOUT + (0 if self.shapes else self.size / _SLOW_DISK)

    def key(self, package: Path) -> str:
        """Names the pair on a build: another file, build or way of loading has another name."""
        facts = [self.mode, str(self.extra_buffers), self.compute]
        facts += [*self.devices, str(self.gpu_layers), *self._cache_words()]
        facts += ["shapes"] * self.shapes
        for path in (*self.target, *self.draft):
            found = path.stat()
            with path.open("rb") as file:
                head = hashlib.sha256(file.read(_HEAD)).hexdigest()
            facts.append(f"{found.st_size} {found.st_mtime_ns} {head}")
        return survival.build_key(package, *facts)

    def command(self) -> list[str]:
        """The child that tries it."""
        words = [f"--mode={self.mode}", f"--compute={self.compute}"]
        words += [f"--gpu-layers={self.gpu_layers}"]
        words += ["--no-extra-buffers"] * (not self.extra_buffers)
        words += ["--shapes"] * self.shapes
        words += [f"--device={device}" for device in self.devices]
        words += self._cache_words()
        # `=` and `--`, so that a path may begin with a dash
        words += [f"--draft={path}" for path in self.draft]
        words += ["--", *(str(path) for path in self.target)]
        return children.command("geniex_runtimes.llama_cpp.trial", *words)

    def _cache_words(self) -> list[str]:
        """How its contexts are made, where that is not as usual."""
        words = [f"--kv-type={self.kv_type}"] * (self.kv_type != "f16")
        return words + [f"--flash-attn={self.flash_attention}"] * (self.flash_attention != "auto")

    def context_options(self, outputs: int = 1, rollback: int = 0) -> ContextOptions:
        """Those of the contexts to try."""
        return ContextOptions(
            _CONTEXT,
            slots=1,
            threads=1,
            compute=self.compute,
            outputs=outputs,
            rollback=rollback,
            kv_type=self.kv_type,
            flash_attention=self.flash_attention,
        )


def of(model: ResolvedModel, options: LoadOptions, mode: Mode | Alone) -> Trial:
    """The trial of what a load with these options makes of a model."""
    return Trial(
        target=model.files,
        draft=options.draft.files if options.draft is not None and mode == "shared" else (),
        mode=mode,
        extra_buffers=options.extra_buffers,
        compute=options.compute,
        devices=options.devices,
        gpu_layers=options.gpu_layers,
        kv_type=options.kv_type,
        flash_attention=options.flash_attention,
    )


def check(
    pair: Trial,
    data_dir: Path | None,
    *,
    command: Sequence[str] | None = None,
    timeout: float | None = None,
) -> None:
    """Try a pair in a child unless that has been done, and refuse it if it fails.

    Without `data_dir` nothing is remembered. `command` stands in for the child. A failure that may
    be another's fault is not remembered: what Python reports (a file that does not load), a child
    that was ended from outside or was too slow. Raises SpeculativeError with the reason, LoadError
    for a model alone.
    """
    try:
        pair = replace(pair, shapes=pair.large)
        package = survival.package_folder()
        if package is None:
            raise SpeculativeError("llama-cpp-python is not installed")
        key = pair.key(package)
    except OSError as exc:
        raise SpeculativeError(f"the pair's files cannot be read: {exc}") from exc
    record = Record(data_dir / FILE, "trials", _KEPT) if data_dir is not None else None
    outcome = record.read().get(key) if record is not None else None
    final, disturbed = True, False
    if outcome is None:
        patience = pair.patience if timeout is None else timeout
        outcome, final = survival.run(command or pair.command(), patience, "it")
        disturbed = survival.disturbed(outcome, patience)
        kept = record if final and not disturbed else None
        if kept is not None and (problem := kept.add(key, outcome)):
            survival.log.warning("the outcome of a trial is %s", problem)
    if not outcome.passed:
        again = f"delete `{record.path}` to try it again" if record is not None else None
        raise _refusal(pair, outcome, _BUSY if disturbed else again, said=not final)


def _refusal(trial: Trial, outcome: Outcome, again: str | None, *, said: bool) -> GenieXError:
    """The error for what failed; `said` where its reason is a sentence of its own."""
    if not trial.alone:
        return SpeculativeError(
            f"a trial of this pair in another process failed: {outcome.reason}", hint=again
        )
    name = trial.target[0].name
    if said:
        newer = _NEWER if _UNKNOWN in (outcome.reason or "") else _DAMAGED
        return LoadError(outcome.reason or f"`{name}` does not load", hint=newer)
    if again == _BUSY:
        return LoadError(
            f"`{name}` could not be tried out in another process: {outcome.reason}", hint=again
        )
    return LoadError(
        f"`{name}` is damaged, or made for another llama.cpp: loading it in another process to "
        f"try it out, {outcome.reason}",
        hint=_DAMAGED if again is None else f"{_DAMAGED}; {again}",
    )


def run(pair: Trial) -> None:
    """Load, evaluate a prompt, draft, verify and roll back, in this process.

    Of shapes alone the evaluation is left out. Raises GenieXError where llama.cpp says no; dies
    where it does not.
    """
    native = library.load()
    target = _load(native, pair, pair.target, heads=not pair.draft and not pair.alone)
    if pair.mode == PLAIN or pair.mode == EMBEDDING:
        once = _embed_once if pair.mode == EMBEDDING else _answer_once
        once(native, target, pair)
        target.close()
        return
    draft = _load(native, pair, pair.draft, heads=True) if pair.draft else target
    rollback = 0 if target.rolls_back else _DRAFT
    options = pair.context_options(1 + _DRAFT, rollback)
    context = Context(native, target, options)
    draft_context = Context(native, draft, options, target=context)
    drafter = ModelDrafter(native, draft, context, draft_context, pair.mode)
    if not pair.shapes:
        _draft_once(context, drafter, Batch(native, len(_PROMPT)))
    drafter.close()
    context.close()
    if pair.draft:
        draft.close()
    target.close()


def _load(native: library.Library, trial: Trial, files: Sequence[Path], *, heads: bool) -> Weights:
    placement = Placement(trial.devices, trial.gpu_layers, trial.extra_buffers, heads=heads)
    return Weights(native, files, placement, shapes=trial.shapes)


def _texts() -> Iterator[str]:
    """What a tokenizer may stumble over: every character of one byte or two, every first byte."""
    yield "Hello, world 1\n"
    yield "".join(map(chr, range(1, 0x800)))
    longer = [0x800, *range(0x1000, 0x10000, 0x1000), *range(0x10000, 0x110000, 0x40000)]
    yield "".join(chr(code) for code in longer if not 0xD800 <= code < 0xE000)


def _answer_once(native: library.Library, weights: Weights, trial: Trial) -> None:
    """Use the tokenizer, and evaluate a prompt and one more token."""
    vocab = weights.vocab
    for text in _texts():
        for token in vocab.tokenize([PromptPiece(text)]):
            vocab.piece(token)
    context = Context(native, weights, trial.context_options())
    batch = Batch(native, len(_PROMPT))
    for start, tokens in ((0, _PROMPT), (len(_PROMPT), _PROMPT[:1])) if not trial.shapes else ():
        batch.clear()
        row = batch.add(0, start, [token % vocab.size for token in tokens], all_logits=False)
        batch.want_logits(row + len(tokens) - 1)
        context.decode(batch)
    context.close()


def _embed_once(native: library.Library, weights: Weights, trial: Trial) -> None:
    """Use the tokenizer, and make a vector."""
    pooling, _ = pooling_of(native, weights, trial.target[0].name)
    pool = PoolingContext(native, weights, _CONTEXT, pooling)
    texts = [weights.vocab.tokenize_whole(text) for text in _texts()]
    if not trial.shapes:
        pool.vectors(texts[:1], threads=1)
    pool.close()


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
    parser.add_argument("--mode", choices=[*get_args(Alone), *get_args(Mode)], required=True)
    parser.add_argument("--no-extra-buffers", action="store_true")
    parser.add_argument("--compute", choices=get_args(ComputeUnit), required=True)
    parser.add_argument("--device", action="append", default=[], help="one of llama.cpp's devices")
    parser.add_argument("--gpu-layers", type=int, default=-1)
    parser.add_argument("--kv-type", choices=get_args(KvType), default="f16")
    parser.add_argument("--flash-attn", choices=get_args(FlashAttention), default="auto")
    parser.add_argument("--shapes", action="store_true", help="leave the weights out")
    given = parser.parse_args()
    children.die_quietly()
    try:
        run(
            Trial(
                target=tuple(given.target),
                draft=tuple(given.draft),
                mode=given.mode,
                extra_buffers=not given.no_extra_buffers,
                compute=given.compute,
                devices=tuple(given.device),
                gpu_layers=given.gpu_layers,
                kv_type=given.kv_type,
                flash_attention=given.flash_attn,
                shapes=given.shapes,
            )
        )
    except GenieXError as exc:
        sys.exit(exc.message)


if __name__ == "__main__":
    main()
