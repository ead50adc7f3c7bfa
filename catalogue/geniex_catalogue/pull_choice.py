"""The files of a repository that a pull is about: models, and what goes beside them."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from geniex_catalogue import names
from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import UsageError
from geniex_catalogue.fileset import ModelFile, Variant
from geniex_catalogue.gguf import GGUFHeader
from geniex_catalogue.hubs.choice import Choice, Pick, check_name
from geniex_catalogue.hubs.contract import Hub, Listing
from geniex_catalogue.manifest import FileRecord, Manifest
from geniex_catalogue.names import ModelRef


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a repository besides the name; see `PullWish`."""

    files: tuple[str, ...] = ()
    with_draft: bool = False
    pick: Pick | None = field(default=None, compare=False)


class Chosen:
    """The files that a name and a wish mean, each for what it is.

    `ref` is the name with its precision, `header` the first file's. Raises the errors of
    `Choice.model`, and UsageError for what does not go together.
    """

    def __init__(self, ref: ModelRef, hub: Hub, listing: Listing, wish: Asked) -> None:
        self._hub, self._listing = hub, listing
        self._choice = Choice(hub, listing)
        self.models: dict[str, Variant] = {}
        self.drafts: list[Variant] = []
        self.projector: Variant | None = None
        self.ref = ref
        self.header: GGUFHeader | None = None
        if ref.selector is not None or not wish.files:
            wanted = ref.precision or _usual(ref)
            self._add_model(*self._choice.model(ref.name, wanted, ref.file, wish.pick))
        for file in wish.files:
            self._add_file(*self._choice.model(ref.name, None, file))
        if wish.with_draft and catalogue().draft_for(ref) is None:
            self._add_draft()

    def _add_model(self, label: str, variant: Variant) -> None:
        if not self.models:
            self.ref = with_label(self.ref, label)
            self.header = variant.files[0].header
        self.models[label] = variant

    def _add_file(self, label: str, variant: Variant) -> None:
        if variant.role == "projector":
            if self.projector is not None:
                raise UsageError("a model has one projector", hint="name one of them")
            self.projector = variant
        elif variant.role == "draft" and self.models:
            self.drafts.append(variant)
        else:
            self._add_model(label, variant)

    def _add_draft(self) -> None:
        """The draft that the model's own repository has. Raises UsageError where it has none."""
        if self.header is not None and self.header.has_heads:
            return
        model = next(iter(self.models.values()), None)
        draft = self._choice.draft(model) if model is not None else None
        if draft is None:
            raise UsageError(
                f"no draft of `{self.ref}` is known",
                hint="leave out `--with-draft`; `--draft-model` of `geniex infer` names any draft",
            )
        if draft not in self.drafts:
            self.drafts.append(draft)

    @property
    def files(self) -> dict[str, ModelFile]:
        """All chosen files by the name they are stored under, what is to be loaded first."""
        companions = [*self.drafts, *([self.projector] if self.projector else [])]
        chosen = [file for v in (*self.models.values(), *companions) for file in v.files]
        for file in chosen:
            check_name(self._listing, file)
        _refuse_clash({file.name for file in chosen})
        return {names.storable(file.name): file for file in chosen}

    def manifest(self) -> Manifest:
        """The manifest of the chosen files, none of them here yet."""
        models, extras = {}, []
        for label, variant in self.models.items():
            first, *rest = (self._record(file, label) for file in variant.files)
            models[label] = first
            extras += rest
        extras += [self._record(file) for draft in self.drafts for file in draft.files]
        projector = self._record(self.projector.files[0]) if self.projector else None
        return Manifest(self.ref.name, "gguf", models, tuple(extras), projector=projector)

    def _record(self, file: ModelFile, label: str | None = None) -> FileRecord:
        return FileRecord(
            names.storable(file.name),
            file.size or 0,
            downloaded=False,
            sha256=file.sha256,
            revision=self._listing.revision,
            source=self._hub.name,
            precision=label,
        )


def _refuse_clash(chosen: Collection[str]) -> None:
    """Refuse files that cannot lie beside each other on every system. Raises UsageError."""
    places = {names.storable(name).lower(): name for name in chosen}
    for name in sorted(chosen):
        place = PurePosixPath(names.storable(name).lower())
        taken = [places[str(path)] for path in (place, *place.parents) if str(path) in places]
        if other := next((other for other in taken if other != name), None):
            raise UsageError(
                f"`{other}` and `{name}` cannot be stored beside each other",
                hint="one is a file and the other a folder of that name, or only case tells them "
                "apart: pull one of them",
            )


def refuse_nested(chosen: Collection[str], held: Collection[str]) -> None:
    """Refuse files in the place of a folder that is here, or the reverse. Raises UsageError."""
    for inner, outer in ((chosen, held), (held, chosen)):
        for name in inner:
            over = [str(path) for path in PurePosixPath(name).parents if str(path) in outer]
            if over:
                raise UsageError(
                    f"`{over[0]}` and `{name}` cannot be stored beside each other",
                    hint="one of them is here: `geniex remove` makes room for the other",
                )


def _usual(ref: ModelRef) -> str | None:
    """The precision that the catalogue names for a model, where the user names nothing."""
    entry = catalogue().entry(ref) if ref.selector is None else None
    return entry.precision if entry is not None else None


def with_label(ref: ModelRef, label: str) -> ModelRef:
    """A name with the label of what is stored: a precision, or the name of a file."""
    if label.lower().endswith(".gguf"):
        return replace(ref, precision=None, file=label)
    return ref.with_precision(label)
