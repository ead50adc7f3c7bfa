"""A listing of files -> the models in it that can be run, their drafts and projectors.

* Only `STEM-NNNNN-of-NNNNN.gguf` files of one folder, stem and count are parts of one model, and a
  file whose own header says that it is whole is none, whatever its name.
* What a file is for comes from its header. Without a header (the listing of a hub) its name tells:
  `mmproj` is a projector; `mtp-...`, the folders `MTP` and `draft`, `eagle3`, `dflash`, `draft` and
  Gemma's `assistant` are drafts; and the variant says that it was told `by_name` alone.
* A label comes from the name, the folder, the header; it is `DEFAULT` where none of them says.
* A bare name takes the best label by `precision.sort_key`. Where a plain and an MTP build share a
  label, the label means the plain one; any other two files that share one are an error, and each
  file can always be chosen by its name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from geniex_catalogue import precision
from geniex_catalogue.errors import (
    AmbiguousModelError,
    GGUFError,
    IncompleteShardsError,
    ManifestError,
    ModelNotFoundError,
)
from geniex_catalogue.gguf import GGUFHeader, Role
from geniex_catalogue.manifest import check_file_name
from geniex_catalogue.names import storable

_SHARD = re.compile(r"(?P<stem>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})(?P<end>(?i:\.gguf))", re.A)
_TOKEN = re.compile(r"[a-z0-9]+")
_DRAFT_TOKENS = frozenset({"eagle3", "dflash", "draft", "drafter"})
_DRAFT_FOLDERS = frozenset({"mtp", "nextn", "draft", "drafts", "drafter"})
_HEAD_TOKENS = frozenset({"mtp", "nextn"})
_EMBEDDING_TOKENS = frozenset({"embed", "embedding", "embeddings"})
# a projector is small: better precise than fast, but F32 doubles it for nothing
_PROJECTOR_LABELS = ("F16", "BF16", "Q8_0", "F32")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of a repository: its name there (POSIX), its bytes and hash where known."""

    name: str
    size: int | None
    sha256: str | None = None
    header: GGUFHeader | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Variant:
    """One thing that can be loaded: a file, or all parts of a split one in order.

    `parts` is how many files the whole has; `problem` says why the files cannot be what they seem.
    `by_name`: the role was guessed from the name. `labelled`: the label stands in the name.
    """

    label: str
    files: tuple[ModelFile, ...]
    role: Role
    by_name: bool = True
    labelled: bool = True
    parts: int = 1
    problem: str | None = None

    @property
    def name(self) -> str:
        """The name of the first file, which is the one to load."""
        return self.files[0].name

    @property
    def size(self) -> int | None:
        """Bytes of all files, or None if one is not known."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of absent parts."""
        part = _SHARD.fullmatch(self.name)
        if part is None or self.parts == len(self.files):
            return ()
        here = {file.name for file in self.files}
        names = (
            f"{part['stem']}-{number:05d}-of-{self.parts:05d}{part['end']}"
            for number in range(1, self.parts + 1)
        )
        return tuple(name for name in names if name not in here)

    def checked(self) -> "Variant":
        """Itself, if it is whole; raises IncompleteShardsError or GGUFError otherwise."""
        if self.problem is not None:
            raise GGUFError(
                self.name,
                self.problem,
                hint="restore the parts' own names, or get all of them again; "
                "`llama-gguf-split --merge` joins them",
            )
        if missing := self.missing:
            raise IncompleteShardsError(self.name, missing)
        return self


@dataclass(frozen=True, slots=True)
class FileSet:
    """The variants of one listing, each kind with the best choice first, and all other files.

    `models` are chat and embedding models. `projectors[0]` is the one to use.
    """

    models: tuple[Variant, ...]
    drafts: tuple[Variant, ...]
    projectors: tuple[Variant, ...]
    others: tuple[ModelFile, ...]

    @property
    def runnable(self) -> tuple[Variant, ...]:
        """What labels choose from: the models, or the drafts of a repository without models."""
        return self.models or self.drafts

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels there are, best choice first; `choose` takes each of them."""
        return tuple(precision.preferred(variant.label for variant in self.runnable))

    def selectors(self) -> tuple[str, ...]:
        """For every runnable variant what chooses exactly it: its label, or its file name."""
        return tuple(v.label if self._sole(v.label) is v else v.name for v in self.runnable)

    def choose(self, label: str | None, file: str | None, name: str) -> Variant:
        """The variant that a precision label, a file name, or neither, means; `name` is for errors.

        Raises PrecisionNotFoundError, AmbiguousModelError, ModelNotFoundError (no such file, or
        nothing to run), IncompleteShardsError, and GGUFError for parts that were renamed.
        """
        if file is not None:
            return self._by_file(file, name).checked()
        if not self.runnable:
            raise ModelNotFoundError(name, hint=self._why_nothing())
        wanted = self.labels[0] if label is None else self._known(label, name)
        found = self._sole(wanted)
        if found is None:
            same = [variant.name for variant in self.runnable if variant.label == wanted]
            raise AmbiguousModelError(f"{name}:{wanted}", same)
        return found.checked()

    def _known(self, asked: str, name: str) -> str:
        """The label here that `asked` means; `DEFAULT` also means the one that no name carries."""
        if precision.canonical(asked) == precision.DEFAULT:
            unnamed = {variant.label for variant in self.runnable if not variant.labelled}
            if len(unnamed) == 1:
                return unnamed.pop()
        return precision.require(name, asked, self.labels)

    def _sole(self, label: str) -> Variant | None:
        """The one variant that a label means, or None where several do."""
        same = [variant for variant in self.runnable if variant.label == label]
        plain = [variant for variant in same if not _HEAD_TOKENS & _tokens(variant.name)]
        headless = [variant for variant in plain or same if not _has_heads(variant)]
        for group in (same, plain, headless):
            if len(group) == 1:
                return group[0]
        return None

    def _by_file(self, asked: str, name: str) -> Variant:
        variants = (*self.models, *self.drafts, *self.projectors)
        names = [(file.name, variant) for variant in variants for file in variant.files]
        missing = _SHARD.fullmatch(asked)
        matches = (
            [v for file, v in names if file == asked],
            [v for file, v in names if file.lower() == asked.lower()],
            [v for file, v in names if _last(file).lower() == asked.lower()],
            [v for file, v in names if storable(file) == asked],
            [v for v in variants if missing is not None and _same_set(missing, v)],
        )
        found = {variant.name: variant for variant in next(filter(None, matches), [])}
        if len(found) > 1:
            raise AmbiguousModelError(f"{name}:{asked}", list(found))
        if not found:
            raise self._no_file(asked, name, [file for file, _ in names])
        return next(iter(found.values()))

    def _no_file(self, asked: str, name: str, known: Sequence[str]) -> ModelNotFoundError:
        # imported here: only an error needs it
        from difflib import get_close_matches

        full = f"{name}:{asked}"
        if any(file.name.lower() == asked.lower() for file in self.others):
            if any(part in (".", "..") for part in re.split(r"[/\\]", asked)):
                return ModelNotFoundError(full, hint=f"file name {asked!a} leads out of its folder")
            return ModelNotFoundError(full, hint="that file is not a model that can be run")
        near = get_close_matches(asked, known, n=3, cutoff=0.5)
        return ModelNotFoundError(full, [f"{name}:{file}" for file in near])

    def _why_nothing(self) -> str:
        if self.projectors:
            return "it holds only a projector, which belongs to a model of another repository"
        if any(file.name.endswith((".safetensors", ".bin", ".pt")) for file in self.others):
            return "it holds weights for other programs; look for a GGUF version of this model"
        for file in self.others:
            try:
                check_file_name(file.name)
            except ManifestError as exc:
                return f"it holds no GGUF model that could be stored: {exc.message}"
        return "it holds no GGUF model"


def group(files: Iterable[ModelFile]) -> FileSet:
    """Sort a listing into variants; never raises, whatever is missing or odd."""
    singles: list[ModelFile] = []
    sets: dict[str, dict[int, ModelFile]] = {}
    others: list[ModelFile] = []
    for file in sorted({file.name: file for file in files}.values(), key=lambda file: file.name):
        if not _is_gguf(file.name):
            others.append(file)
        elif (part := _part(file)) is not None:
            whole = "{stem}-{count}{end}".format(**part.groupdict())
            sets.setdefault(whole, {})[int(part["no"])] = file
        else:
            singles.append(file)
    variants = [_single(file) for file in singles]
    variants += [_joined(parts) for parts in sets.values()]
    variants.sort(key=lambda variant: (precision.sort_key(variant.label), variant.name))
    kinds: dict[Role, list[Variant]] = {"model": [], "draft": [], "projector": []}
    for variant in variants:
        role: Role = "model" if variant.role == "embedding" else variant.role
        if role in kinds:
            kinds[role].append(variant)
        else:
            others += variant.files
    projectors = sorted(kinds["projector"], key=_projector_key)
    return FileSet(tuple(kinds["model"]), tuple(kinds["draft"]), tuple(projectors), tuple(others))


def _part(file: ModelFile) -> re.Match[str] | None:
    """The name of a part of a split model, taken apart, or None for a whole file."""
    match = _SHARD.fullmatch(file.name)
    if match is None or (file.header is not None and file.header.split_count <= 1):
        return None
    return match if 1 <= int(match["no"]) <= int(match["count"]) else None


def _single(file: ModelFile) -> Variant:
    problem = None
    if file.header is not None and file.header.split_count > 1:
        problem = (
            f"its header says it is part {file.header.split_no + 1} of {file.header.split_count} "
            "of a split model, but its name has no `-00001-of-...` (joined or renamed parts)"
        )
    return _variant((file,), file.header, problem=problem)


def _joined(parts: dict[int, ModelFile]) -> Variant:
    files = tuple(file for _, file in sorted(parts.items()))
    name = _SHARD.fullmatch(files[0].name)
    count = int(name["count"]) if name is not None else len(files)
    headers = [file.header for file in files if file.header is not None]
    # later parts hold no facts about the model, and a name may call one of them the first
    told = [header for header in headers if header.architecture or not header.split_no]
    first = min(told, key=lambda header: (not header.architecture, header.split_no), default=None)
    return _variant(files, first, parts=count, problem=set_problem(parts, count))


def set_problem(parts: Mapping[int, ModelFile], count: int) -> str | None:
    """Why parts, by their numbers from 1, are no set of `count`; None as far as headers tell."""
    for number, file in sorted(parts.items()):
        header = file.header
        if header is None or (header.split_no + 1, header.split_count) == (number, count):
            continue
        return (
            f"`{file.name}` is part {header.split_no + 1} of {header.split_count} by its header, "
            f"but part {number} of {count} by its name"
        )
    headers = [file.header for file in parts.values() if file.header is not None]
    holders: dict[str, str] = {}
    for file in parts.values():
        for tensor in file.header.tensors if file.header is not None else ():
            if other := holders.get(tensor.name):
                return f"`{other}` and `{file.name}` both hold the tensor `{tensor.name}`"
            holders[tensor.name] = file.name
    stated = headers[0].number("split.tensors.count") if headers else None
    if stated is not None and len(headers) == count and stated != len(holders):
        return f"its {count} parts hold {len(holders)} tensors, where {stated} belong to it"
    return None


def _variant(
    files: tuple[ModelFile, ...],
    header: GGUFHeader | None,
    *,
    parts: int = 1,
    problem: str | None = None,
) -> Variant:
    name = files[0].name
    label = precision.label_of(name)
    labelled = label is not None
    if label is None and header is not None and header.file_type is not None:
        label = precision.label_of_file_type(header.file_type)
    return Variant(
        label=label or precision.DEFAULT,
        files=files,
        role=header.role if header is not None else _role_by_name(name),
        by_name=header is None,
        labelled=labelled,
        parts=parts,
        problem=problem,
    )


def _role_by_name(name: str) -> Role:
    *folders, last = name.lower().split("/")
    words = _TOKEN.findall(last.removesuffix(".gguf"))
    tokens = set(words)
    if "mmproj" in tokens:
        return "projector"
    if words[:1] in (["mtp"], ["nextn"]) or tokens & _DRAFT_TOKENS or _DRAFT_FOLDERS & {*folders}:
        return "draft"
    if "assistant" in tokens and any(word.startswith("gemma") for word in words):
        return "draft"
    if "imatrix" in tokens and precision.label_of(last) is None:
        return "imatrix"
    return "embedding" if tokens & _EMBEDDING_TOKENS else "model"


def _projector_key(variant: Variant) -> tuple[int, str]:
    known = variant.label in _PROJECTOR_LABELS
    return _PROJECTOR_LABELS.index(variant.label) if known else len(_PROJECTOR_LABELS), variant.name


def _has_heads(variant: Variant) -> bool:
    return any(file.header is not None and file.header.has_heads for file in variant.files)


def _tokens(name: str) -> set[str]:
    return set(_TOKEN.findall(name.lower().removesuffix(".gguf")))


def _same_set(part: re.Match[str], variant: Variant) -> bool:
    """Whether a part's name belongs to a variant's set, in which it is missing."""
    other = _SHARD.fullmatch(variant.name)
    return (
        other is not None and other["stem"] == part["stem"] and int(part["count"]) == variant.parts
    )


def _last(name: str) -> str:
    return name.rpartition("/")[2]


def _is_gguf(name: str) -> bool:
    """Whether a file is a GGUF by its name; what is hidden (`._x.gguf`, `.cache/x.gguf`) is not."""
    hidden = any(part.startswith(".") for part in name.split("/"))
    return name.lower().endswith(".gguf") and not hidden
