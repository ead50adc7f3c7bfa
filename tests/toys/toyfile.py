"""Writing one toy: metadata and tensors into a GGUF file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import gguf
import numpy as np
import numpy.typing as npt

from tests.toys.vocabulary import (
    BOS,
    CONTROL,
    EOS,
    NORMAL,
    PAD,
    UNK,
    UNKNOWN,
    Vocabulary,
)

Array = npt.NDArray[np.float32]
Value = int | float | bool | list[bool] | list[int]


class ToyFile:
    """A GGUF file under construction; written when the `with` block ends well."""

    def __init__(self, path: Path, architecture: str, weights: str = "Q8_0") -> None:
        """`weights` is the kind of the matrices; Q8_0 and Q5_0 are two."""
        self._kind = gguf.GGMLQuantizationType[weights]
        self._path = path
        self._architecture = architecture
        self._writer: Any = gguf.GGUFWriter(str(path), architecture)

    def facts(self, values: Mapping[str, Value]) -> None:
        """Metadata of the architecture's own; whole numbers are u32, others f32."""
        for key, value in values.items():
            name = f"{self._architecture}.{key}"
            if isinstance(value, bool):
                self._writer.add_bool(name, value)
            elif isinstance(value, int):
                self._writer.add_uint32(name, value)
            elif isinstance(value, float):
                self._writer.add_float32(name, value)
            else:
                self._writer.add_array(name, value)

    def vocabulary(self, words: Vocabulary) -> None:
        """The tokenizer; the later a token stands, the later it is merged."""
        writer = self._writer
        text = words.first_text
        writer.add_tokenizer_model("llama")
        writer.add_token_list(list(words.tokens))
        writer.add_token_scores(
            [-1000.0] * text + [-float(n) / 100 for n in range(words.size - text)]
        )
        writer.add_token_types(list(words.types))
        writer.add_bos_token_id(BOS)
        writer.add_eos_token_id(EOS)
        writer.add_unk_token_id(UNK)
        writer.add_pad_token_id(PAD)
        writer.add_add_bos_token(True)
        writer.add_add_space_prefix(False)

    def word_pieces(self, tokens: Sequence[str], *, cls: int, sep: int, unk: int, pad: int) -> None:
        """A tokenizer of BERT's kind, which puts CLS before a text and SEP behind it."""
        writer = self._writer
        special = {cls, sep, pad}
        writer.add_tokenizer_model("bert")
        writer.add_token_list(list(tokens))
        writer.add_token_types(
            [
                CONTROL if t in special else UNKNOWN if t == unk else NORMAL
                for t in range(len(tokens))
            ]
        )
        writer.add_token_type_count(2)
        writer.add_bos_token_id(cls)
        writer.add_eos_token_id(sep)
        writer.add_sep_token_id(sep)
        writer.add_unk_token_id(unk)
        writer.add_pad_token_id(pad)

    def matrix(self, name: str, values: Array) -> None:
        """A weight matrix, quantised: then rows give the same numbers alone and in a batch."""
        packed = gguf.quants.quantize(np.ascontiguousarray(values, np.float32), self._kind)
        self._writer.add_tensor(f"{name}.weight", packed, raw_dtype=self._kind)

    def vector(self, name: str, values: npt.ArrayLike, ending: str = ".weight") -> None:
        """Values that stay F32: norms, scales, and what else is small."""
        self._writer.add_tensor(name + ending, np.ascontiguousarray(values, np.float32))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._writer.write_header_to_file()
            self._writer.write_kv_data_to_file()
            self._writer.write_tensors_to_file()
        self._writer.close()


class Dice:
    """Random weights from one seed."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def matrix(self, outputs: int, inputs: int, scale: float = 1.0) -> Array:
        """A projection that keeps the size of what goes through it, times `scale`."""
        return self.normal(outputs, inputs) * np.float32(scale / np.sqrt(inputs))

    def normal(self, *shape: int) -> Array:
        """Values of size one."""
        return self._random.standard_normal(shape, np.float32)

    def order(self, count: int) -> npt.NDArray[np.int64]:
        """The numbers below `count`, shuffled."""
        return self._random.permutation(count)
