"""A model that is not here, as its hub has it: precisions with sizes, and the header of one."""

from dataclasses import dataclass, field
from pathlib import Path

from geniex_catalogue.entries import catalogue
from geniex_catalogue.errors import ModelNotFoundError
from geniex_catalogue.gguf import join_shards
from geniex_catalogue.hubs.choice import Candidate, Choice
from geniex_catalogue.hubs.contract import Machine
from geniex_catalogue.hubs.deliveries import delivers, delivery_for
from geniex_catalogue.hubs.huggingface import HuggingFace
from geniex_catalogue.names import LOCAL_ORG, ModelRef, storable
from geniex_catalogue.offline import require_network
from geniex_catalogue.pull_choice import with_label
from geniex_catalogue.pull_plan import NO_WISH, PullWish
from geniex_catalogue.resolver import ResolvedModel
from geniex_catalogue.store import Store


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """What a hub tells of a model without fetching it.

    `chosen` is the precision that was named, or would be taken; it has no files here, but the
    header (of a GGUF repository) and size that the hub has. `drafts` and `projectors` are file
    names, `notes` why it was this one.
    """

    hub: str
    revision: str
    chosen: ResolvedModel
    precisions: tuple[Candidate, ...]
    drafts: tuple[str, ...] = ()
    projectors: tuple[str, ...] = ()
    files: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()


def look_up(ref: ModelRef, store: Store, wish: PullWish = NO_WISH) -> RemoteModel:
    """Ask the hub for a repository of GGUF files: its listing, and the first bytes of files.

    A hub that chooses by itself is asked what it has for `wish.machine`. Raises ModelNotFoundError
    for what no hub is asked for, HubError, TransferError, GGUFError, and the errors of
    `FileSet.choose`.
    """
    if ref.org == LOCAL_ORG and ref.hub is None:
        hint = f"import it with `geniex pull {ref.name} --local-path PATH`"
        raise ModelNotFoundError(str(ref), hint=hint)
    require_network(f"`{ref}` is not here", wish.offline)
    return _delivered(ref, store, wish) if delivers(ref) else _listed(ref, wish)


def _delivered(ref: ModelRef, store: Store, wish: PullWish) -> RemoteModel:
    delivery = delivery_for(ref, store, wish.machine or Machine())
    sizes = [item.packing.size if item.packing else item.size for item in delivery.items]
    size = None if None in sizes else sum(size for size in sizes if size is not None)
    exact = with_label(ref, delivery.label)
    names = tuple(item.name for item in delivery.items)
    chosen = ResolvedModel(
        str(exact), exact, delivery.format, Path(names[0]), (), delivery.label, size or 0
    )
    offered = (Candidate(delivery.label, size),)
    return RemoteModel(
        delivery.hub, delivery.revision, chosen, offered, files=names, notes=delivery.notes
    )


def _listed(ref: ModelRef, wish: PullWish) -> RemoteModel:
    hub = HuggingFace(wish.token)
    listing = hub.list(ref, wish.revision)
    choice = Choice(hub, listing)
    entry = catalogue().entry(ref) if ref.selector is None else None
    wanted = ref.precision or (entry.precision if entry is not None else None)
    label, variant = choice.model(ref.name, wanted, ref.file, wish.pick)
    exact = with_label(ref, label)
    first, *rest = variant.files
    headers = [first.header] if first.header is not None else []
    headers += [hub.header(listing, file) for file in rest]
    chosen = ResolvedModel(
        str(exact),
        exact,
        "gguf",
        Path(storable(variant.name)),
        (),
        label,
        variant.size or 0,
        join_shards(headers) if headers else None,
    )
    found = choice.fileset
    sizes = {v.label: v.size for v in reversed(found.runnable)}
    return RemoteModel(
        hub.name,
        listing.revision,
        chosen,
        tuple(Candidate(label, sizes[label]) for label in found.labels),
        tuple(v.name for v in found.drafts if v not in found.runnable),
        tuple(v.name for v in found.projectors),
        tuple(file.name for file in variant.files),
    )
