"""Small models that answer differently: copies of the built-in one with weights left out."""

import shutil
from pathlib import Path

import geniex_catalogue

BUILTIN = Path(geniex_catalogue.__file__).parent / "builtin" / "tiny-chat-Q8_0.gguf"
_BLOCK = 34  # bytes of a block of Q8_0: a scale of 2, and 32 values
_STEP = 16


def variants(folder: Path, count: int) -> list[Path]:
    """So many copies, each in a folder of its own under the same file name; about 3 MB each."""
    return [_variant(folder / str(number), number) for number in range(count)]


def _variant(folder: Path, number: int) -> Path:
    import gguf
    import numpy as np

    folder.mkdir(parents=True)
    file = folder / "tiny-chat-Q8_0.gguf"
    shutil.copyfile(BUILTIN, file)
    for tensor in gguf.GGUFReader(file, "r+").tensors if number else ():
        if tensor.name.endswith("ffn_down.weight"):
            blocks = np.asarray(tensor.data).reshape(-1, _BLOCK)
            blocks[number % _STEP :: _STEP] = 0
    return file
