"""Which files of a repository a name means: names choose, headers confirm."""

from dataclasses import replace

from geniex_catalogue import names
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import (
    AmbiguousModelError,
    ModelRefError,
    PrecisionNotFoundError,
)
from geniex_catalogue.fileset import FileSet, ModelFile, Variant, group
from geniex_catalogue.hubs.contract import Hub, Listing
from geniex_catalogue.hubs.part import FACTS_ENDING
from geniex_catalogue.names import ModelRef


def choose(hub: Hub, listing: Listing, ref: ModelRef) -> tuple[str, Variant]:
    """The label to store under, and the variant to fetch.

    The header of what the name chooses is read from the hub; where it tells another story than the
    file's name, the choice is made again with what is known then. Raises what `FileSet.choose` and
    `Hub.header` raise, ModelRefError for a file that could not be stored.
    """
    wanted = ref.precision or _usual(ref)
    files = {file.name: file for file in listing.files}
    while True:
        fileset = group(files.values())
        try:
            variant = fileset.choose(wanted, ref.file, ref.name)
        except (PrecisionNotFoundError, AmbiguousModelError) as exc:
            unread = _unread(fileset, exc)
            if unread is None:
                raise
            variant = unread
        else:
            if not variant.by_name:
                return _label(fileset, variant), variant
        first = variant.files[0]
        check_name(listing, first)
        header = hub.header(listing, first)
        files[first.name] = replace(first, header=header, size=first.size or header.file_size)


def check_name(listing: Listing, file: ModelFile) -> None:
    """Refuse a file whose name leads out of the store, or is too long. Raises ModelRefError."""
    try:
        # what a file is called until it is whole has to fit too
        names.check_file_name(names.storable(file.name) + FACTS_ENDING)
    except ModelRefError as exc:
        raise ModelRefError(
            f"`{listing.repo}` cannot be stored: {exc.message}",
            hint="choose another file of it, or fetch the file yourself and import it",
        ) from exc


def _usual(ref: ModelRef) -> str | None:
    """The precision that the catalogue names for a model, where the user names nothing."""
    entry = catalogue().entry(ref) if ref.selector is None else None
    return entry.precision if entry is not None else None


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
