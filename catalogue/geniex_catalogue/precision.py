"""Precision labels: `Q4_K_M` and all the others, read from names and from metadata, and ordered.

A label is upper case. `FP16` and `FP32` are written `F16` and `F32`; the prefix `i1-` (weighted
quantisation) is dropped; `UD-Q4_K_XL` is a label of its own, beside `Q4_K_XL`. A GGUF whose name,
folder and metadata say nothing has the label `DEFAULT`.
"""

import re
from collections.abc import Iterable

from geniex_catalogue.errors import PrecisionNotFoundError

DEFAULT = "DEFAULT"

_SIZE = r"(?:XXS|XXL|XS|XL|S|M|L|P)"
_LABEL = rf"""
    (?:UD[-_])?
    (?:
        T?Q\d_[0-9](?:_[48]_[48])?                        # Q4_0, Q8_1, Q4_0_4_8, TQ1_0
        (?:_{_SIZE})?
      | Q\d_K(?:V|_{_SIZE})?                              # Q4_K_M, Q6_K, Q8_KV
      | IQ\d_(?:KSS|KS|KT|KL|K|NL|{_SIZE})(?:_{_SIZE})?   # IQ4_XS, IQ4_NL, IQ2_XXS, IQ4_KS
    )
    (?:_R\d{{1,2}}|_G\d{{1,3}})?                          # interleaved rows, groups: IQ4_KS_R4
  | I2_S                                                  # of BitNet
  | (?:MX|NV)FP\d(?:[-_]MOE)?(?:_(?:BF16|F16|Q8_0))?      # MXFP4, MXFP4_MOE, NVFP4
  | BF16 | FP?16 | FP?32 | F64
  | W\d{{1,2}}A\d{{1,2}}                                  # W4A16, of compiled bundles
"""
_TOKEN = re.compile(rf"(?<![A-Z0-9])(?:{_LABEL})(?![A-Z0-9])", re.VERBOSE | re.ASCII)
# `Q4` alone says so little that it counts at the very end of a name only; Q1 and Q7 are no widths
_BARE_TOKEN = re.compile(r"(?<![A-Z0-9])(?:I?Q[234568])$")
_SHARD = re.compile(r"-\d{5}-OF-\d{5}$", re.ASCII)
_ALIASES = {"FP16": "F16", "FP32": "F32", "MXFP4-MOE": "MXFP4_MOE"}

_FILE_TYPES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    4: "Q4_1",
    5: "Q4_2",
    6: "Q4_3",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    33: "Q4_0_4_4",
    34: "Q4_0_4_8",
    35: "Q4_0_8_8",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
}
# set beside the type when the writer was not sure of it
_GUESSED = 1024

_FIRST = ("Q4_0", "Q4_K_M", "Q8_0")
_FAMILIES = ("_K_M", "_K_S", "_K_L", "_K_XL", "_K", "_0", "_1")


def canonical(label: str) -> str:
    """The one spelling of a label: `fp16` -> `F16`, `i1-q4_k_m` -> `Q4_K_M`."""
    label = label.upper().removeprefix("I1-")
    if label.startswith("UD_"):
        label = "UD-" + label[3:]
    return _ALIASES.get(label, label)


def label_of(name: str) -> str | None:
    """The label that a file's repo-relative name carries, or None.

    The last recognised token of the file's stem counts, else that of the nearest folder.
    """
    *folders, last = name.replace("\\", "/").split("/")
    stem = last[:-5] if last.lower().endswith(".gguf") else last
    for part in (stem, *reversed(folders)):
        text = _SHARD.sub("", part.upper())
        tokens = [match.group() for match in _TOKEN.finditer(text)]
        if bare := _BARE_TOKEN.search(text):
            tokens.append(bare.group())
        if tokens:
            return canonical(tokens[-1])
    return None


def label_of_file_type(file_type: int) -> str | None:
    """The label of `general.file_type`, or None for a number that llama.cpp does not define."""
    return _FILE_TYPES.get(file_type & ~_GUESSED)


def bits(label: str) -> int | None:
    """The nominal bits per weight of a label: 4 for `Q4_K_M`; None if it does not say."""
    found = re.search(r"(?:Q|FP|BF|F|W)(\d{1,2})", label, re.ASCII)
    return int(found.group(1)) if found else None


def sort_key(label: str) -> tuple[int, int, int, str]:
    """Sorts labels best choice first, for a name without a precision.

    `Q4_0`, `Q4_K_M`, `Q8_0`; then what has 4 to 8 bits, the smallest first; then less than 4 bits,
    the most first; then 16 bits and more; then what is not known. Of equal bits: K_M, K_S, K_L,
    K_XL, K, _0, _1 before the rest, plain before `UD-`.
    """
    label = canonical(label)
    if label in _FIRST:
        return 0, _FIRST.index(label), 0, label
    width = bits(label)
    if width is None:
        return 4, 0, 0, label
    plain = label.startswith(("Q", "F"))
    family = next((i for i, end in enumerate(_FAMILIES) if plain and label.endswith(end)), 99)
    if width < 4:
        return 2, -width, family, label
    return (1 if width <= 8 else 3), width, family if width <= 8 else not plain, label


def preferred(labels: Iterable[str]) -> list[str]:
    """Distinct labels, the best choice first."""
    return sorted(set(labels), key=sort_key)


def find(asked: str, available: Iterable[str]) -> str | None:
    """The label among `available` that answers to `asked`, in any case and spelling, or None.

    `Q4_K_XL` also finds `UD-Q4_K_XL` where there is no plain one.
    """
    known = {canonical(label): label for label in available}
    wanted = canonical(asked)
    return known.get(wanted) or known.get("UD-" + wanted)


def require(name: str, asked: str, available: Iterable[str]) -> str:
    """Like `find`, but raises PrecisionNotFoundError with what `name` has, and the nearest."""
    labels = preferred(available)
    found = find(asked, labels)
    if found is None:
        raise PrecisionNotFoundError(name, asked, labels, nearest=_nearest(asked, labels))
    return found


def _nearest(asked: str, labels: list[str]) -> str | None:
    # imported here: only an error needs it
    from difflib import SequenceMatcher

    wanted = canonical(asked)[:64]
    return max(labels, key=lambda label: SequenceMatcher(None, wanted, label).ratio(), default=None)
