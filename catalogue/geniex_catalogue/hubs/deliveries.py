"""What is made of a delivery: files to fetch, then whole files; and which hub makes one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from geniex_catalogue import names
from geniex_catalogue.hubs.aihub import AIHub
from geniex_catalogue.hubs.contract import Delivery, Item, Machine
from geniex_catalogue.hubs.docker import DockerHub
from geniex_catalogue.hubs.part import ENDING
from geniex_catalogue.hubs.transfer import Fetch, Fetched
from geniex_catalogue.hubs.unpacking import unpacked
from geniex_catalogue.manifest import INFLIGHT, FileRecord, Manifest, check_file_name
from geniex_catalogue.names import ModelRef
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel, problem


def delivers(ref: ModelRef) -> bool:
    """Whether the hub of a name chooses the files by itself."""
    return ref.hub == "docker" or (ref.org == names.AI_HUB_ORG and ref.hub is None)


def with_hub(ref: ModelRef, model: StoredModel | None) -> ModelRef:
    """A name, with the hub that the model of that name in the store came from."""
    if ref.hub is not None or model is None or model.manifest is None:
        return ref
    for record in model.manifest.files():
        if record.source == "docker" and record.precision == (ref.precision or record.precision):
            tag = (record.revision or "").partition("@")[0]
            return replace(ref, precision=record.precision, hub="docker", tag=tag or None)
    return ref


def delivery_for(
    ref: ModelRef, store: Store, machine: Machine, revision: str | None = None
) -> Delivery:
    """What the hub of a name has for a machine, where that hub chooses by itself.

    Raises a HubError, TransferError, PrecisionNotFoundError, and ModelFileError.
    """
    if ref.hub == "docker":
        return DockerHub().deliver(ref, revision)
    return AIHub(store.root).deliver(ref, machine, revision)


def fetches(delivery: Delivery, folder: Path) -> tuple[Fetch, ...]:
    """The files of a delivery, to be fetched for a model's folder. Raises ManifestError."""
    inflight = folder / INFLIGHT
    jobs = []
    for item in delivery.items:
        part = inflight.joinpath(*check_file_name(item.name).split("/"))
        part = part.with_name(part.name + ENDING)
        jobs.append(Fetch(item.name, item.source, part, item.size, item.sha256))
    return tuple(jobs)


def same_files(delivery: Delivery, model: StoredModel | None) -> dict[str, FileRecord]:
    """The files of a delivery that a stored model has: the same by hash, else size and revision."""
    if model is None or model.manifest is None:
        return {}
    items = {item.name: item for item in delivery.items}
    return {
        record.name: record
        for record in model.manifest.files()
        if record.name in items
        and record.precision == delivery.label
        and _is_same(delivery, items[record.name], record)
        and problem(model.folder, record) is None
    }


def _is_same(delivery: Delivery, item: Item, record: FileRecord) -> bool:
    if not record.downloaded:
        return False
    if item.sha256 is not None:
        return item.sha256 == record.sha256
    size = item.packing.size if item.packing else item.size
    return (record.size, record.revision) == (size, delivery.revision)


def is_here(delivery: Delivery, model: StoredModel) -> bool:
    """Whether all of a delivery is in the store, and nothing else under its label."""
    if delivery.label not in model.precisions:
        return False
    held = {record.name for record in model.records(delivery.label)}
    return held == set(same_files(delivery, model)) == {item.name for item in delivery.items}


def manifest_of(
    delivery: Delivery, ref: ModelRef, here: Mapping[str, FileRecord] | None = None
) -> Manifest:
    """The manifest of a delivery; its files that are `here` as they are, the others not yet."""
    known = here or {}
    records = [
        known[item.name]
        if item.name in known
        else FileRecord(
            item.name,
            (item.packing.size if item.packing else item.size) or 0,
            downloaded=False,
            sha256=item.sha256,
            revision=delivery.revision,
            source=delivery.hub,
            precision=delivery.label,
        )
        for item in delivery.items
    ]
    first, *rest = records
    return Manifest(
        ref.name,
        delivery.format,
        {delivery.label: first},
        tuple(rest),
        model_type=delivery.model_type,
    )


def whole(delivery: Delivery, fetched: Sequence[Fetched]) -> dict[str, Fetched]:
    """What has arrived, as the files that it is; what an archive has packed is unpacked.

    Raises ChecksumError for content that is not what its archive states, DiskSpaceError,
    StoreError.
    """
    packings = {item.name: item.packing for item in delivery.items}
    files = {}
    for got in fetched:
        packing = packings[got.name]
        if packing is not None:
            path, digest = unpacked(got.path, packing, got.name, got.sha256)
            got = replace(got, path=path, size=packing.size, sha256=digest)
        files[got.name] = got
    return files
