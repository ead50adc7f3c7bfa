"""Whether a target and a draft fit, from their headers alone, before anything is loaded.

llama.cpp does not check most of this: of the pairs refused here some end the process, some read the
target's cells in the wrong shape, and some run with hardly a token accepted.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

from geniex_catalogue.gguf import GGUFHeader
from geniex_runtimes.errors import SpeculativeError
from geniex_runtimes.llama_cpp.speculative import vocabularies
from geniex_runtimes.llama_cpp.speculative.embedded import check_heads

Mode: TypeAlias = Literal["shared", "own", "chained"]

# drafts that attend to the target's KV cells: the target's architecture -> the draft's
SHARED_KV = {"gemma4": "gemma4-assistant"}

_ROLES = {
    "projector": "a projector of images or audio",
    "adapter": "a LoRA adapter",
    "embedding": "an embedding model",
    "imatrix": "an importance matrix",
    "vocabulary": "a vocabulary without weights",
    "unknown": "no model",
}
# encoder-decoders and diffusion models: they do not go from left to right, token by token
_NOT_DECODERS = frozenset({"t5", "dream", "llada", "llada-moe", "rnd1", "wavtokenizer-dec"})
_DRAFT_HINT = "give the draft that was made for this model with `--draft-model`"
_SIMPLE_HINT = "give a small model of the same vocabulary with `--draft-model`"
_HEADS_HINT = "leave `--draft-model` out to use its own heads"


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two files."""

    header: GGUFHeader
    path: Path

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"`{self.path.name}`"

    @property
    def architecture(self) -> str:
        """`general.architecture`; empty where the file does not say."""
        return self.header.architecture or ""

    def number(self, key: str) -> int:
        """One of the architecture's own numbers; 0 where it is missing."""
        return self.header.number(self.header.own(key)) or 0

    def of_layer(self, key: str, layer: int) -> int:
        """A number that the file gives for all layers, or for each; 0 where it is missing."""
        value = self.header.metadata.get(self.header.own(key))
        if isinstance(value, tuple):
            value = value[layer] if layer < len(value) else 0
        return value if isinstance(value, int) else 0

    def slides(self, layer: int) -> bool:
        """Whether a layer looks through the sliding window only."""
        pattern = self.header.metadata.get(self.header.own("attention.sliding_window_pattern"))
        return isinstance(pattern, tuple) and layer < len(pattern) and bool(pattern[layer])


def check(
    target: GGUFHeader, target_path: Path, draft: GGUFHeader | None, draft_path: Path | None
) -> Mode:
    """How a target can draft with MTP: with a draft on its KV cells, or with heads in its own file.

    The paths are those of the files that hold the metadata (of shards the first); the headers of
    shards are to be joined. Raises SpeculativeError with the reason, in one line, for everything
    else.
    """
    one = _Side(target, target_path)
    _check_target(one)
    if draft is None or draft_path is None:
        return _without_draft(one)
    other = _Side(draft, draft_path)
    wanted = SHARED_KV.get(one.architecture)
    # heads that cannot be run are no way out
    heads = _HEADS_HINT if _has_own_heads(one) else None
    _check_draft_file(one, other, heads or _DRAFT_HINT)
    if wanted is None:
        text = f"{one.name} ({one.architecture}) takes no draft for MTP, given was {other.name}"
        raise SpeculativeError(f"{text} ({other.architecture})", hint=heads)
    if other.architecture != wanted:
        raise SpeculativeError(
            f"MTP with a {one.architecture} target needs a draft of architecture {wanted}, "
            f"{other.name} is {other.architecture}",
            hint=_DRAFT_HINT,
        )
    _check_sizes(one, other)
    _check_cells(one, other)
    vocabularies.check(target, target_path, draft, draft_path)
    return "shared"


def check_simple(
    target: GGUFHeader, target_path: Path, draft: GGUFHeader | None, draft_path: Path | None
) -> None:
    """Whether a draft is an ordinary model that can draft for the target, for `draft-simple`.

    As in llama.cpp one vocabulary may be up to 128 tokens longer than the other (padding). Stricter
    than there, all tokens of the range that both have must be equal, the first five included.
    Raises SpeculativeError with the reason.
    """
    one = _Side(target, target_path)
    _check_target(one)
    if draft is None or draft_path is None:
        raise SpeculativeError(
            f"`draft-simple` needs a draft for {one.name}: a small model of the same vocabulary",
            hint="give one with `--draft-model`",
        )
    other = _Side(draft, draft_path)
    _check_draft_file(one, other, _SIMPLE_HINT)
    if draft.role == "draft":
        raise SpeculativeError(
            f"{other.name} ({other.architecture}) does not run alone, as `draft-simple` needs it",
            hint="use it with `--spec-type draft-mtp`",
        )
    if other.architecture in _NOT_DECODERS:
        raise SpeculativeError(
            f"{other.name} is no draft: architecture {other.architecture} does not write token by "
            "token"
        )
    if draft.recurrent:
        raise SpeculativeError(
            f"{other.name} is no draft: the state of its recurrent layers ({other.architecture}) "
            "cannot be cut back to what was accepted"
        )
    vocabularies.check(target, target_path, draft, draft_path, spare=vocabularies.SPARE_TOKENS)
    vocabularies.check_ends(target, target_path, draft, draft_path)


def _check_target(target: _Side) -> None:
    role = target.header.role
    if role == "draft":
        raise SpeculativeError(
            f"{target.name} ({target.architecture}) is itself a draft and has no target",
            hint="run the target, and give this file with `--draft-model`",
        )
    if role in _ROLES:
        raise SpeculativeError(f"{target.name} is {_ROLES[role]}, there is nothing to speed up")


def _check_draft_file(target: _Side, draft: _Side, hint: str) -> None:
    """Refuse files that are no draft for any target; `hint` is what to do instead."""
    if _same_file(target.path, draft.path):
        raise SpeculativeError(f"the draft {draft.name} is the target itself", hint=hint)
    role = draft.header.role
    if role in _ROLES:
        raise SpeculativeError(f"{draft.name} is {_ROLES[role]}, not a draft", hint=hint)


def _has_own_heads(target: _Side) -> bool:
    try:
        check_heads(target.header, target.path.name)
    except SpeculativeError:
        return False
    return True


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one == other or one.samefile(other)
    except OSError:
        return False


def _without_draft(target: _Side) -> Mode:
    wanted = SHARED_KV.get(target.architecture)
    if wanted is not None:
        raise SpeculativeError(
            f"{target.name} ({target.architecture}) needs a draft of architecture {wanted} for "
            "MTP, and none was given",
            hint=_DRAFT_HINT,
        )
    heads = check_heads(target.header, target.path.name)
    return "chained" if heads > 1 else "own"


def _differ(what: str, draft: _Side, drafts: object, target: _Side, targets: object) -> NoReturn:
    """Refuse a pair for two values; the draft was made for the first one."""
    raise SpeculativeError(
        f"the {what} differ: {draft.name} has {drafts}, {target.name} has {targets}",
        hint=_DRAFT_HINT,
    )


def _check_sizes(target: _Side, draft: _Side) -> None:
    """The hidden states that go from the target to the draft and back."""
    out, hidden = draft.number("embedding_length_out"), target.number("embedding_length")
    if out != hidden:
        raise SpeculativeError(
            f"{draft.name} is made for hidden states of {out} values, {target.name} has {hidden}",
            hint=_DRAFT_HINT,
        )
    if draft.number("embedding_length") == out:
        raise SpeculativeError(
            f"the own hidden size of {draft.name} is that of its target ({out}): llama.cpp takes "
            "only smaller drafts"
        )
    declared, blocks = draft.number("nextn_predict_layers"), draft.number("block_count")
    if declared != blocks or not blocks:
        raise SpeculativeError(
            f"{draft.name} has {blocks} blocks and declares {declared} next-token layers: "
            "all are to be such"
        )


def _check_cells(target: _Side, draft: _Side) -> None:
    """The target's KV cells, as the draft's layers read them.

    Sliding layers of the draft read those of the target's last layer but one, full layers those of
    the last.
    """
    layers = target.number("block_count")
    if layers < 2 or not target.slides(layers - 2) or target.slides(layers - 1):
        last = range(max(0, layers - 2), layers)
        kinds = ["sliding" if target.slides(layer) else "full" for layer in last]
        raise SpeculativeError(
            f"the last two layers of {target.name} are to be sliding and full for a draft on its "
            f"cells, they are {' and '.join(kinds) or 'missing'}"
        )
    own = draft.number("block_count")
    if not any(draft.slides(layer) for layer in range(own)):
        raise SpeculativeError(f"none of the {own} layers of {draft.name} has a sliding window")
    for what, key in (
        ("sliding windows", "attention.sliding_window"),
        ("key sizes of full layers", "attention.key_length"),
        ("value sizes of full layers", "attention.value_length"),
        ("key sizes of sliding layers", "attention.key_length_swa"),
        ("value sizes of sliding layers", "attention.value_length_swa"),
    ):
        found, expected = _size(draft, key), _size(target, key)
        if found != expected or not found:
            _differ(what, draft, found or "none", target, expected or "none")
    for layer in range(own):
        slides = draft.slides(layer)
        source = _cells_of(target, layers - 2 if slides else layers - 1)
        heads, given = _kv_heads(draft, layer), _kv_heads(target, source)
        if heads != given or not heads:
            what = f"KV heads of {'sliding' if slides else 'full'} layers"
            _differ(what, draft, heads, target, given)


def _size(side: _Side, key: str) -> int:
    """A size in the file; key and value sizes have a default."""
    size = side.number(key)
    if size or key not in ("attention.key_length", "attention.value_length"):
        return size
    heads = side.of_layer("attention.head_count", 0)
    return side.number("embedding_length") // heads if heads else 0


def _kv_heads(side: _Side, layer: int) -> int:
    return side.of_layer("attention.head_count_kv", layer) or side.of_layer(
        "attention.head_count", layer
    )


def _cells_of(target: _Side, layer: int) -> int:
    """The layer whose cells a layer uses: the last ones may share those of layers before them."""
    own = target.number("block_count") - target.number("attention.shared_kv_layers")
    if layer < own:
        return layer
    return max(0, own - (2 if target.slides(layer) else 1))
