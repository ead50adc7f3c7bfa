"""The tiny bundles for tests of the `qairt` runtime, and what their answers have to be."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from platform import machine
from typing import Any

from tokenizers import Tokenizer

from ci.qairt_bundles.corpus import BOS, END, EOS, SPECIAL
from ci.qairt_bundles.making import Maker, Variant, reference_models
from ci.qairt_bundles.weights import DATA, TOKENIZER

# the only place where Qualcomm's libraries compile and simulate
SIMULATOR_HERE = sys.platform == "linux" and machine() == "x86_64"
ENDS = (SPECIAL.index(EOS), SPECIAL.index(END))


class QairtBundles:
    """Makes bundles on demand and keeps them; a first one takes about two seconds a shard.

    `context` is a context length, or several for a bundle with graphs for each.
    """

    def __init__(self, cache: Path | None = None) -> None:
        self._maker = Maker(cache)
        self._graphs: dict[Variant, Any] = {}
        self.tokenizer = Tokenizer.from_file(str(DATA / TOKENIZER))

    def folder(
        self,
        arch: int = 73,
        parts: int = 1,
        context: int | tuple[int, ...] = 64,
        *,
        weight_sharing: bool = False,
    ) -> Path:
        """A bundle as a folder that all tests share: it is not to be changed."""
        return self._maker.folder_of(_variant(arch, parts, context, weight_sharing))

    def zip(self, arch: int = 73, parts: int = 1, context: int | tuple[int, ...] = 64) -> Path:
        """A bundle as a zip, not to be changed."""
        return self._maker.zip_of(_variant(arch, parts, context, False))

    def copy(
        self, target: Path, arch: int = 73, parts: int = 1, context: int | tuple[int, ...] = 64
    ) -> Path:
        """A bundle as a folder in `target` that may be changed."""
        source = self.folder(arch, parts, context)
        return Path(shutil.copytree(source, target / source.name))

    def encode(self, text: str) -> list[int]:
        """The ids of a prompt, with its BOS."""
        return list(self.tokenizer.encode(BOS + text).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included."""
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False))

    def reference(
        self,
        prompt_ids: Sequence[int],
        count: int,
        *,
        parts: int = 1,
        context: int = 64,
        ends: Sequence[int] = ENDS,
    ) -> list[int]:
        """Up to `count` greedy tokens of the CPU provider on the same quantised graphs.

        The token that ends the answer is the last of them; so is one that fills the context.
        """
        from ci.qairt_bundles.reference import Decoding

        return Decoding(self._loaded(parts, context), self._ranges()).greedy(
            prompt_ids, count, ends
        )

    def margin(self, prompt_ids: Sequence[int], answer: Sequence[int], context: int = 64) -> float:
        """How far each chosen token's logit is above the next one, at the least."""
        from ci.qairt_bundles.reference import Decoding

        return Decoding(self._loaded(1, context), self._ranges()).margin(prompt_ids, answer)

    def _loaded(self, parts: int, context: int) -> Any:
        from ci.qairt_bundles.reference import Graphs

        variant = Variant(parts=parts, contexts=(context,))
        if variant not in self._graphs:
            self._graphs[variant] = Graphs(reference_models(variant))
        return self._graphs[variant]

    def _ranges(self) -> Any:
        from ci.qairt_bundles.making import read_ranges

        return read_ranges()


def _variant(
    arch: int, parts: int, context: int | tuple[int, ...], weight_sharing: bool
) -> Variant:
    contexts = (context,) if isinstance(context, int) else context
    return Variant(arch, parts, contexts, weight_sharing)
