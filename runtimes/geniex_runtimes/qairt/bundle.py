"""A compiled bundle: what its files say it is, read without any native code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geniex_catalogue.bundle_files import BUNDLE_CONFIG, BUNDLE_FACTS
from geniex_catalogue.errors import BundleError
from geniex_runtimes.errors import BundleTargetError
from geniex_runtimes.options import SamplingOptions
from geniex_runtimes.qairt.bundle_facts import (
    GraphName,
    HtpTarget,
    Metadata,
    chat_template,
    read_metadata,
    read_target,
)
from geniex_runtimes.qairt.bundle_json import Section, read_json
from geniex_runtimes.qairt.bundle_paths import inside
from geniex_runtimes.qairt.bundle_tokenizer import read_token_texts

_MAX_CONTEXT = 1 << 24
_MAX_VOCABULARY = 1 << 24
_MAX_SHARDS = 256
# dialogs of other types draft tokens of their own, and ask the sampler for several at once
_BASIC = "basic"
# the text part of a bundle for images
_TEXT_GENERATOR = "text-generator.json"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle whose files are all there, as its JSON files describe it.

    `shards` are the context binaries in the order of `ctx-bins`. `config` is genie_config.json as
    it stands: its paths are relative to `folder`. `context_length` (tokens) is what it was
    compiled for at most, `context_lengths` all that it has graphs for. `graphs` may be empty: only
    the binaries know for sure. `bos_id` None: no token opens a prompt. `size` is bytes of all
    files that it names. `soc_model` and `htp_arch` are of the Hexagon that it was compiled for,
    by its back-end settings, else by its metadata.
    """

    folder: Path
    model_id: str
    shards: tuple[Path, ...]
    tokenizer: Path
    extensions: Path | None
    config: Mapping[str, Any] = field(repr=False, compare=False)
    context_length: int
    context_lengths: tuple[int, ...]
    vocab_size: int
    bos_id: int | None
    eos_ids: tuple[int, ...]
    pad_id: int | None
    sampling: SamplingOptions
    graphs: tuple[GraphName, ...]
    chipset: str | None
    soc_model: int | None
    htp_arch: int | None
    qairt_version: str | None
    precision: str | None
    vision: bool
    chat_template: str | None = field(repr=False)
    bos_token: str
    eos_token: str
    control_tokens: frozenset[str] = field(repr=False)
    end_tokens: frozenset[str]
    size: int


def read_bundle(folder: Path) -> Bundle:
    """The bundle in a folder. Raises BundleError: which file, what is wrong with it, what to do.

    Everything that its JSON files name is inside the folder, is there, and is not empty. Nothing
    native is touched, and whether it can run here is for `verification` to say.
    """
    metadata = read_metadata(folder)
    _check_kind(folder, metadata)
    config = read_json(folder / BUNDLE_CONFIG)
    dialog = _dialog(config)
    engine = dialog.section("engine")
    shards = _shards(folder, engine.section("model"))
    tokenizer = inside(folder, *_named(dialog.section("tokenizer"), "path"))
    extensions = _extensions(folder, engine.section("backend"))
    target = read_target(extensions) if extensions else metadata.target
    if extensions:
        _check_targets(folder, metadata, extensions, target)
    context = dialog.section("context")
    length = _required(context, "size", _MAX_CONTEXT)
    vocab_size = _required(context, "n-vocab", _MAX_VOCABULARY)
    bos_id, eos_ids, pad_id = _special_ids(context, vocab_size)
    texts = read_token_texts(tokenizer, bos_id, eos_ids)
    named = [folder / BUNDLE_CONFIG, tokenizer, *shards, *([extensions] if extensions else [])]
    return Bundle(
        folder=folder,
        model_id=metadata.model_id or folder.name,
        shards=shards,
        tokenizer=tokenizer,
        extensions=extensions,
        config=config.values,
        context_length=length,
        context_lengths=_lengths(metadata, length),
        vocab_size=vocab_size,
        bos_id=bos_id,
        eos_ids=eos_ids,
        pad_id=pad_id,
        sampling=_sampling(dialog.section("sampler")),
        graphs=metadata.graphs,
        chipset=metadata.chipset,
        soc_model=target.soc_model,
        htp_arch=target.htp_arch or metadata.target.htp_arch,
        qairt_version=metadata.qairt_version,
        precision=metadata.precision,
        vision=metadata.vision,
        chat_template=chat_template(folder, metadata),
        bos_token=texts.bos,
        eos_token=texts.eos,
        control_tokens=texts.control,
        end_tokens=texts.end,
        size=sum(path.stat().st_size for path in named),
    )


def _check_kind(folder: Path, metadata: Metadata) -> None:
    """Refuse a bundle for images, whose parts are wired up in files of other names."""
    if (folder / BUNDLE_CONFIG).exists():
        return
    if metadata.vision or (folder / _TEXT_GENERATOR).exists():
        raise BundleTargetError(
            folder,
            "a runtime for images",
            "a runtime for text alone",
            hint="pull a bundle of a text model",
        )


def _dialog(config: Section) -> Section:
    """The part of genie_config.json that describes a text model."""
    dialog = config.section("dialog")
    if dialog.values:
        if (kind := dialog.text("type")) not in (None, _BASIC):
            raise dialog.fault(
                "type",
                f"is {kind[:40]!a}; only `{_BASIC}` is supported",
                hint="only bundles that draft no tokens of their own run here",
            )
        return dialog
    others = sorted(key for key in config.values if key != "version")
    found = f"only `{'`, `'.join(others)[:200]}`" if others else "nothing"
    raise BundleError(
        config.file,
        f"has no `dialog`, {found}: it describes no text model",
        hint="only bundles of text models run here",
    )


def _named(section: Section, key: str) -> tuple[Path, str, str]:
    """Where a file is named, and its name."""
    name = section.text(key)
    if not name:
        raise section.fault(key, "is missing")
    return section.file, f"{section.place}.{key}", name


def _shards(folder: Path, model: Section) -> tuple[Path, ...]:
    if (kind := model.text("type")) not in (None, "binary"):
        raise model.fault("type", f"is {kind!a}; only `binary` runs on the NPU")
    binary = model.section("binary")
    names = binary.texts("ctx-bins", _MAX_SHARDS)
    if not names:
        raise binary.fault("ctx-bins", "is missing or empty: it names no context binary")
    if len(set(names)) < len(names):
        raise binary.fault("ctx-bins", "names a file twice")
    place = f"{binary.place}.ctx-bins"
    return tuple(inside(folder, binary.file, place, name) for name in names)


def _extensions(folder: Path, backend: Section) -> Path | None:
    if (kind := backend.text("type")) != "QnnHtp":
        raise backend.fault("type", f"is {kind!a}; only `QnnHtp`, the NPU, is supported")
    if not backend.text("extensions"):
        return None
    return inside(folder, *_named(backend, "extensions"))


def _check_targets(folder: Path, metadata: Metadata, extensions: Path, target: HtpTarget) -> None:
    """metadata.json and the back-end settings have to be for one Hexagon."""
    stated, settings = metadata.target.htp_arch, target.htp_arch
    if stated is None or settings is None or stated == settings:
        return
    raise BundleError(
        folder / BUNDLE_FACTS,
        f"`chipset_attributes.htp_version` is {stated}, and `{extensions.name}` is for "
        f"HTP v{settings}",
        hint="files of two bundles are mixed: pull or import the bundle again",
    )


def _required(section: Section, key: str, high: int) -> int:
    value = section.whole(key, 1, high)
    if value is None:
        raise section.fault(key, "is missing")
    return value


def _special_ids(
    context: Section, vocab_size: int
) -> tuple[int | None, tuple[int, ...], int | None]:
    """The ids of BOS, EOS and padding; -1 stands for no such token, but one has to be EOS."""
    bos = context.whole("bos-token", -1, _MAX_VOCABULARY)
    eos = context.wholes("eos-token", -1, _MAX_VOCABULARY)
    pad = context.whole("pad-token", -1, _MAX_VOCABULARY)
    ends = tuple(token for token in eos if token >= 0)
    if not ends:
        raise context.fault(
            "eos-token",
            "names no token: no answer would end",
            hint="set it to the id of the token that ends an answer, or export the bundle anew",
        )
    for key, tokens in (("bos-token", (bos,)), ("eos-token", eos), ("pad-token", (pad,))):
        for token in tokens:
            if token is not None and token >= vocab_size:
                raise context.fault(
                    key, f"is {token}, which is not among the {vocab_size} tokens of `n-vocab`"
                )
    return (
        bos if bos is not None and bos >= 0 else None,
        ends,
        pad if pad is not None and pad >= 0 else None,
    )


def _sampling(sampler: Section) -> SamplingOptions:
    """How the bundle's maker would draw tokens; the seed stays the caller's."""
    penalty = sampler.section("token-penalty")
    return SamplingOptions(
        temperature=sampler.number("temp", 0, 100),
        top_p=sampler.number("top-p", 0, 1),
        top_k=sampler.whole("top-k", 0, _MAX_VOCABULARY),
        repetition_penalty=penalty.number("repetition-penalty", 0, 100),
        presence_penalty=penalty.number("presence-penalty", -100, 100) or 0.0,
        frequency_penalty=penalty.number("frequency-penalty", -100, 100) or 0.0,
    )


def _lengths(metadata: Metadata, length: int) -> tuple[int, ...]:
    """The context lengths that there are graphs for, the longest last."""
    return tuple(sorted({*metadata.context_lengths, length}))
