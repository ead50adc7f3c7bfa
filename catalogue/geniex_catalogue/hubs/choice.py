"""Which files of a repository a name means: names choose, headers confirm."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from geniex_catalogue import names
from geniex_catalogue.errors import (
    AmbiguousModelError,
    ManifestError,
    ModelRefError,
    PrecisionNotFoundError,
)
from geniex_catalogue.fileset import FileSet, ModelFile, Variant, group
from geniex_catalogue.hubs.contract import Hub, Listing
from geniex_catalogue.hubs.part import FACTS_ENDING
from geniex_catalogue.manifest import check_file_name

_WORD = re.compile(r"[a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A precision that a repository has; `size` is bytes of all its files, None where unknown."""

    label: str
    size: int | None


# chooses one of the labels, which come with the reference's first choice first
Pick: TypeAlias = Callable[[Sequence[Candidate]], str]


class Choice:
    """Choosing files of one listing, with what has been read of their headers so far."""

    def __init__(self, hub: Hub, listing: Listing) -> None:
        self._hub = hub
        self._listing = listing
        self._files = {file.name: file for file in listing.files}
        self._picked: dict[tuple[str, ...], str] = {}

    @property
    def fileset(self) -> FileSet:
        """The listing, sorted by what is known now."""
        return group(self._files.values())

    def model(
        self, name: str, label: str | None, file: str | None = None, pick: Pick | None = None
    ) -> tuple[str, Variant]:
        """The label to store under and the variant that a precision, a file or neither means.

        The header of what the name chooses is read from the hub; where it tells another story than
        the file's name, the choice is made again with what is known then. `pick` chooses where
        nothing is named and there are several precisions. Raises what `FileSet.choose` and
        `Hub.header` raise, ModelRefError for a file that could not be stored.
        """
        while True:
            fileset = self.fileset
            try:
                variant = fileset.choose(label or self._pick(fileset, file, pick), file, name)
            except (PrecisionNotFoundError, AmbiguousModelError) as exc:
                unread = _unread(fileset, exc)
                if unread is None:
                    raise
                variant = unread
            else:
                if not variant.by_name:
                    return _label(fileset, variant), variant
            self._read(variant)

    def draft(self, model: Variant) -> Variant | None:
        """The draft in the same repository that goes with a model; None for none.

        Its name tells, where there are drafts of several models: the one that has most words in
        common, of these one of the model's own precision, else the best.
        """

        def distance(draft: Variant) -> tuple[int, bool]:
            return -len(_words(draft) & _words(model)), draft.label != model.label

        while True:
            drafts = [draft for draft in self.fileset.drafts if not draft.missing]
            drafts.sort(key=distance)
            if not drafts or not drafts[0].by_name:
                return drafts[0] if drafts else None
            self._read(drafts[0])

    def _pick(self, fileset: FileSet, file: str | None, pick: Pick | None) -> str | None:
        """What `pick` chooses, asked once for the same precisions."""
        labels = fileset.labels
        if file is not None or pick is None or len(labels) < 2:
            return None
        if labels not in self._picked:
            sizes = {variant.label: variant.size for variant in reversed(fileset.runnable)}
            self._picked[labels] = pick([Candidate(label, sizes[label]) for label in labels])
        return self._picked[labels]

    def _read(self, variant: Variant) -> None:
        first = variant.files[0]
        check_name(self._listing, first)
        header = self._hub.header(self._listing, first)
        self._files[first.name] = replace(first, header=header, size=first.size or header.file_size)


def check_name(listing: Listing, file: ModelFile) -> None:
    """Refuse a file whose name leads out of the store, on any system, is too long or no text.

    Raises ModelRefError.
    """
    try:
        if any("\ud800" <= character <= "\udfff" for character in file.name):
            raise ModelRefError(f"file name {file.name!a} is no text: it holds half a character")
        check_file_name(file.name)
        # what a file is called until it is whole has to fit too
        names.check_file_name(names.storable(file.name) + FACTS_ENDING)
    except (ModelRefError, ManifestError) as exc:
        raise ModelRefError(
            f"`{listing.repo}` cannot be stored: {exc.message}",
            hint="choose another file of it, or fetch the file yourself and import it",
        ) from exc


def _words(variant: Variant) -> set[str]:
    """The words of a file's name, without its precision."""
    name = variant.name.rpartition("/")[2].lower().removesuffix(".gguf")
    return set(_WORD.findall(name.replace(variant.label.lower(), " ")))


def _unread(fileset: FileSet, error: Exception) -> Variant | None:
    """A variant whose header may tell what its name does not, and so save the choice."""
    same = error.candidates if isinstance(error, AmbiguousModelError) else ()
    for variant in fileset.runnable:
        unsure = not variant.labelled or variant.name in same
        if variant.by_name and unsure and not variant.missing:
            return variant
    return None


def _label(fileset: FileSet, variant: Variant) -> str:
    """What chooses exactly this variant: its label, or its file name where that says too little."""
    selectors = zip(fileset.runnable, fileset.selectors(), strict=True)
    label = next((text for other, text in selectors if other == variant), variant.name)
    return label if label == variant.label else names.storable(label)
