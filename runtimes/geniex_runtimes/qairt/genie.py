"""The engine `genie`: Qualcomm's own runner of bundles, with our sampler in it.

What was measured with QAIRT 2.51 on the simulator, and how it is met here:

* libGenie adds a BOS of its own to every query: it is told that there is none, and the prompt has
  the one that the tokenizer gave it.
* Its built-in sampler cannot be greedy for one request and seeded for the next, gives no logprobs
  and takes no grammar of ours. A custom sampler gets the logits of each step as float32 and says
  the token. A step took 26 ms with either; ours takes 0.01 ms of it, and 1 ms for a vocabulary of
  150,000 with the usual top-k and top-p. So ours is the only one.
* A step past the context kills the dialog, `reset` does not heal it: it is made anew. The caller
  never asks for that, but the widest graph already refuses when its own width does not fit behind
  the cache. So a prompt's end that is beyond that goes in token by token, as if it were sampled.
* A query that rewinds keeps the cache's common beginning, and needs at least one new token. Where
  queries gave up more than a few tokens, later ones failed for want of a contiguous free block,
  and one ended the process. So that is left to a fresh start; of 1100 that gave up three at most,
  in contexts of 64 and 512 tokens, all went well.
* `GenieDialog_signal` acts between tokens only, and what the cache holds is unknown behind it. An
  EOS from our sampler ends a query as soon, and keeps the cache.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from geniex_runtimes.qairt.bundle import Bundle, read_bundle
from geniex_runtimes.qairt.bundle_paths import unloadable
from geniex_runtimes.qairt.engine import Choose, EngineError, EngineOptions, Floats
from geniex_runtimes.qairt.genie_library import (
    CONTEXT_EXCEEDED,
    Dialog,
    DialogError,
    GenieLibrary,
    sampler_settings,
)

_TOKENS = "geniex_tokens.json"
# as AI Hub compiles its prompt graphs; only for bundles that do not say
_USUAL_WIDTH = 128
# tokens that a rewind may give up
_MOST_REWOUND = 3
# BOS is always shared, and a rewind to nothing else fails
_LEAST_KEPT = 2


class GenieEngine:
    """A bundle in libGenie. See the contract `Engine`."""

    def __init__(self, folder: Path, options: EngineOptions) -> None:
        """Load it. Raises EngineMissingError, EngineError, and BundleError as `read_bundle`."""
        if options.sliding_window:
            raise EngineError("the engine genie has no sliding window; the engine ort does")
        bundle = read_bundle(folder)
        self._library = GenieLibrary(options.libraries)
        self._config = dialog_config(bundle)
        self._context_length = bundle.context_length
        self._vocab_size = bundle.vocab_size
        self._end = end_token(bundle)
        self._room = prompt_room(bundle)
        self._run: _Run | None = None
        self._held: list[int] = []
        self._dialog: Dialog | None = self._first_dialog(bundle)

    @property
    def context_length(self) -> int:
        """Tokens of prompt and answer together."""
        return self._context_length

    @property
    def vocab_size(self) -> int:
        """Logits of a row."""
        return self._vocab_size

    def evaluate(self, prompt: Sequence[int], choose: Choose, *, reuse: bool = True) -> int:
        """As `Engine.evaluate`."""
        kept = self._kept(prompt) if reuse else 0
        first, rest = prompt[: self._room], prompt[self._room :]
        run = self._run = _Run(rest, choose, self._end)
        status = self._query(first, run, rewind=kept > 0)
        if status == CONTEXT_EXCEEDED and kept and not run.begun:
            # no free block behind the kept tokens: all that is lost is time
            kept = 0
            self._forget_dialog()
            status = self._query(first, run, rewind=False)
        self._settle(first, run, status)
        if run.error is not None:
            raise run.error
        return kept

    def _first_dialog(self, bundle: Bundle) -> Dialog:
        """Load the shards. Raises EngineError, and BundleError where libGenie takes none of it."""
        try:
            return Dialog(self._library, self._config)
        except DialogError as exc:
            raise unloadable(bundle.shards, f"libGenie ({exc})") from exc

    def _kept(self, prompt: Sequence[int]) -> int:
        """How many tokens a rewind keeps; 0 where it would keep none, or cannot be trusted."""
        held = self._held
        length = min(len(held), len(prompt))
        same = next((at for at in range(length) if held[at] != prompt[at]), length)
        if same < _LEAST_KEPT or same == len(prompt) or len(held) - same > _MOST_REWOUND:
            return 0
        return same if max(len(held), same + 1) <= self._room else 0

    def _query(self, tokens: Sequence[int], run: "_Run", *, rewind: bool) -> int:
        dialog = self._opened()
        if not rewind:
            dialog.reset()
        self._held = []
        self._library.sample = run.sample
        try:
            return dialog.query(tokens, rewind=rewind)
        except EngineError:
            self._forget_dialog()
            raise

    def _settle(self, first: Sequence[int], run: "_Run", status: int) -> None:
        """Remember what the cache holds. Raises EngineError where the query ended by itself."""
        if status == CONTEXT_EXCEEDED:
            self._forget_dialog()
            raise EngineError("libGenie found the context full before its end")
        if not run.ended:
            raise EngineError(f"libGenie ended the answer by itself (status {status})")
        self._held = [*first, *run.given]

    def _opened(self) -> Dialog:
        if self._dialog is None:
            self._dialog = Dialog(self._library, self._config)
        return self._dialog

    def _forget_dialog(self) -> None:
        self._held = []
        dialog, self._dialog = self._dialog, None
        if dialog is not None:
            dialog.free()

    def abort(self) -> None:
        """As `Engine.abort`; what the graphs take at once of a prompt is evaluated to its end."""
        if self._run is not None:
            self._run.aborted = True

    def reset(self) -> None:
        """Forget the sequence."""
        self._held = []
        self._opened().reset()

    def save(self, folder: Path) -> None:
        """Write the cache, and the tokens that are in it."""
        if not self._held:
            raise EngineError("there is no sequence to save")
        self._opened().save(folder)
        (folder / _TOKENS).write_text(json.dumps(self._held), encoding="utf-8")

    def restore(self, folder: Path) -> None:
        """Take what `save` wrote."""
        try:
            tokens = json.loads((folder / _TOKENS).read_text(encoding="utf-8"))
            held = [int(token) for token in tokens]
        except (OSError, ValueError, TypeError) as exc:
            raise EngineError(f"`{folder}` holds no saved sequence: {exc}") from exc
        self._held = []
        self._opened().restore(folder)
        self._held = held

    def close(self) -> None:
        """Free the dialog."""
        self._forget_dialog()


class _Run:
    """One query's sampler: the prompt's end first, then what the caller chooses.

    `given` are the tokens that went back to libGenie to be evaluated.
    """

    def __init__(self, rest: Sequence[int], choose: Choose, end: int) -> None:
        self._rest = iter(rest)
        self._choose = choose
        self._end = end
        self.aborted = False
        self.begun = False
        self.ended = False
        self.given: list[int] = []
        self.error: BaseException | None = None

    def sample(self, logits: Floats) -> int:
        """The next token; EOS where there is to be none, which libGenie does not evaluate."""
        self.begun = True
        try:
            token = None if self.aborted else self._next(logits)
        except BaseException as exc:  # ctypes would print it and go on
            self.error = exc
            token = None
        if token is None or token == self._end:
            self.ended = True
            return self._end
        self.given.append(token)
        return token

    def _next(self, logits: Floats) -> int | None:
        forced = next(self._rest, None)
        return self._choose(logits) if forced is None else forced


def dialog_config(bundle: Bundle) -> dict[str, Any]:
    """genie_config.json with absolute paths, our sampler, no BOS and no ending of its own."""
    config: dict[str, Any] = json.loads(json.dumps(bundle.config))
    dialog = config["dialog"]
    dialog["tokenizer"]["path"] = str(bundle.tokenizer.resolve())
    engine = dialog["engine"]
    engine["model"]["binary"]["ctx-bins"] = [str(shard.resolve()) for shard in bundle.shards]
    if bundle.extensions is not None:
        engine["backend"]["extensions"] = str(bundle.extensions.resolve())
    dialog["sampler"] = sampler_settings()
    dialog["context"]["bos-token"] = -1
    dialog["context"]["eos-token"] = end_token(bundle)
    dialog.pop("stop-sequence", None)
    dialog.pop("max-num-tokens", None)
    return config


def end_token(bundle: Bundle) -> int:
    """The token that tells libGenie to stop; a real one, since it pads prompts with it."""
    return bundle.eos_ids[0]


def prompt_room(bundle: Bundle) -> int:
    """How many tokens the widest graph of the longest context takes: those before its width."""
    length = bundle.context_length
    widths = [graph.width for graph in bundle.graphs if graph.context_length == length]
    width = max(widths, default=min(_USUAL_WIDTH, length // 2))
    return length - width if width < length else length
