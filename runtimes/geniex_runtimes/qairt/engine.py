"""What an engine is: inside the worker it evaluates tokens of one bundle and gives their logits.

An engine knows nothing of text, sampling, grammars or stop strings: `Answering` in `answering.py`
does all that, the same for every engine, in the function that it hands to `evaluate`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from geniex_runtimes.options import QairtEngine

if TYPE_CHECKING:
    # the runtime's side of the pipes computes nothing
    import numpy as np
    import numpy.typing as npt

EngineName: TypeAlias = QairtEngine
Floats: TypeAlias = "npt.NDArray[np.float32]"

# what is to follow the tokens so far, given their logits; None ends the evaluation
Choose: TypeAlias = "Callable[[Floats], int | None]"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How an engine is made, besides the bundle.

    `libraries` is the folder of Qualcomm's libraries. `sliding_window` lets an answer go on past
    the context by giving up the oldest tokens, where the engine can.
    """

    libraries: Path
    sliding_window: bool = False


class EngineError(Exception):
    """Raised by an engine for what a library refuses, in one sentence; the worker reports it."""


class EngineMissingError(EngineError):
    """Raised when the library that an engine stands on is not here or does not load."""


class Engine(Protocol):
    """One bundle in memory, and the KV cache of one sequence.

    An engine is made as `SomeEngine(folder, options)`, which loads the bundle and raises
    EngineError or EngineMissingError. All methods belong to one thread, but for `abort`.
    """

    @property
    def context_length(self) -> int:
        """Tokens of prompt and answer together; from the bundle."""
        ...

    @property
    def vocab_size(self) -> int:
        """Logits of a row; from the bundle."""
        ...

    def evaluate(self, prompt: Sequence[int], choose: Choose, *, reuse: bool = True) -> int:
        """Evaluate a prompt as it is (no BOS is added), then one token at a time.

        `choose` is called with the logits behind the prompt and behind each token that it gave:
        one row of `vocab_size`, valid during the call, which it may change. It sees to it that
        prompt and answer fit into the context; the last token it gives before None is evaluated.
        A token that ends answers in this bundle it never gives: that is None.
        An exception of `choose` ends the evaluation and goes on to the caller.
        `reuse` keeps what the cache already holds of the prompt's beginning; the prompt's last
        token is always evaluated. Returns how many tokens were kept. Raises EngineError; the next
        `evaluate` works all the same.
        """
        ...

    def abort(self) -> None:
        """End a running `evaluate` within one step, in the prompt too; from any thread.

        `evaluate` then returns as if `choose` had given None. Where none runs nothing happens.
        """
        ...

    def reset(self) -> None:
        """Forget the sequence. Raises EngineError."""
        ...

    def save(self, folder: Path) -> None:
        """Write the sequence into an existing empty folder. Raises EngineError."""
        ...

    def restore(self, folder: Path) -> None:
        """Take a sequence that `save` wrote for this bundle. Raises EngineError."""
        ...

    def close(self) -> None:
        """Free everything; a second call does nothing."""
        ...
