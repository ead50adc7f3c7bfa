"""Bundles pulled from the AI Hub: the same as its zip imported, whole or not at all."""

import hashlib
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from geniex_catalogue.errors import (
    ChecksumError,
    ChipsetError,
    DiskSpaceError,
    GenieXError,
    HubError,
    HubNotFoundError,
    ModelFileError,
    PrecisionNotFoundError,
    StoreError,
    UsageError,
)
from geniex_catalogue.hubs import unpacking
from geniex_catalogue.hubs.contract import Machine, Packing
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.names import parse
from geniex_catalogue.pull import PullWish, execute, plan_pull, pull
from geniex_catalogue.resolver import PullNeeded, ResolvedModel, resolve
from geniex_catalogue.store import Store
from geniex_catalogue.stored import StoredModel
from tests.aihub import BUNDLE, METADATA, X2_ELITE, X_ELITE, Bucket, asset, assets, zipped
from tests.hubserver import Fault

NAME = "ai-hub-models/Qwen3-4B"
REF = parse(NAME)
WISH = PullWish(machine=Machine(X_ELITE, 73))
ZIP = "x_elite.zip"


def pulled(store: Store, wish: PullWish = WISH, name: str = NAME) -> StoredModel:
    return pull(parse(name), store, wish)


def content(model: StoredModel) -> dict[str, bytes]:
    assert model.manifest is not None
    return {record.name: model.path(record).read_bytes() for record in model.manifest.files()}


def nothing_whole(store: Store) -> bool:
    return all(model.status != "ready" for model in store.list())


def test_a_bundle(bucket: Bucket, store: Store) -> None:
    assert isinstance(resolve(NAME, store), PullNeeded)
    model = pulled(store)
    assert (model.name, model.format, model.precisions) == (
        "qualcomm/Qwen3-4B",
        "qairt",
        ("W4A16",),
    )
    assert content(model) == BUNDLE
    for name in (NAME, f"{NAME}:w4a16", "Qualcomm/Qwen3-4B"):
        found = resolve(name, store)
        assert isinstance(found, ResolvedModel)
        assert (found.format, found.precision) == ("qairt", "W4A16")
    assert store.verify(model.ref) == ()


def test_it_is_what_its_zip_gives(bucket: Bucket, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(zipped())
    imported = import_path(parse("local/same"), path, store).manifest
    fetched = pulled(store).manifest
    assert imported is not None
    assert fetched is not None
    assert list(fetched.models) == list(imported.models)
    assert fetched.models["W4A16"].name == "qwen3_4b_part_1_of_2.bin"
    assert {r.name: r.size for r in fetched.files()} == {r.name: r.size for r in imported.files()}
    assert (fetched.format, fetched.model_type) == (imported.format, imported.model_type)
    hashes = {record.name: record.sha256 for record in fetched.files()}
    assert hashes == {name: hashlib.sha256(data).hexdigest() for name, data in BUNDLE.items()}


def test_only_what_is_needed_is_read(bucket: Bucket, store: Store) -> None:
    big = {"metadata.json": METADATA, "part_1_of_1.bin": bytes(3_000_000), "notes/.x": bytes(500)}
    bucket.qwen(zipped(big, stored=""))
    plan = plan_pull(REF, store, WISH)
    assert bucket.hub.served < 600_000
    assert plan.total == 3_000_000 + len(METADATA)
    assert plan.present is None
    before = bucket.hub.served
    execute(plan, store)
    assert bucket.hub.served - before <= plan.total


def test_a_second_pull_asks_nobody(bucket: Bucket, store: Store) -> None:
    pulled(store)
    asked = len(bucket.hub.seen)
    assert plan_pull(REF, store, WISH).present is not None
    assert len(bucket.hub.seen) == asked
    again = plan_pull(REF, store, PullWish(revision="latest", machine=WISH.machine))
    assert again.present is not None


def test_a_newer_release_is_fetched(bucket: Bucket, store: Store) -> None:
    pulled(store)
    newer = BUNDLE | {"qwen3_4b_part_1_of_2.bin": b"newer" * 1000}
    url = bucket.put("models/qwen3_4b/releases/v0.61.0/x.zip", zipped(newer))
    bucket.put("models/qwen3_4b/assets.json", assets(asset(X_ELITE, url=url)))
    for path in (store.root / "aihub").rglob("*.json"):
        path.unlink()
    model = pulled(store, PullWish(revision="latest", machine=WISH.machine))
    assert content(model) == newer


def test_a_broken_pull_goes_on(bucket: Bucket, store: Store) -> None:
    plan = plan_pull(REF, store, WISH)

    class Stop:
        """A progress that has enough after a part of the weights."""

        moved = 0

        def start(self, file: str, total: int | None, present: int) -> None: ...
        def retry(self, file: str, reason: str, wait: float) -> None: ...
        def finish(self, file: str) -> None: ...
        def advance(self, file: str, count: int) -> None:
            self.moved += count
            if self.moved > 50_000:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute(plan, store, Stop())
    assert nothing_whole(store)
    assert content(pulled(store)) == BUNDLE


def bent(data: bytes, name: str, by: int = 0) -> bytes:
    """A zip with one byte of a file's content changed."""
    member = zipfile.ZipFile(io.BytesIO(data)).getinfo(f"b/{name}")
    lengths = struct.unpack_from("<2H", data, member.header_offset + 26)
    at = member.header_offset + 30 + sum(lengths) + member.compress_size // 2 + by
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize("name", ["qwen3_4b_part_1_of_2.bin", "tokenizer.json"])
def test_content_that_is_not_what_the_archive_states(
    bucket: Bucket, store: Store, name: str
) -> None:
    bucket.qwen(bent(zipped(), name))
    with pytest.raises(ChecksumError, match=r"its archive states|cannot be unpacked"):
        pulled(store)
    assert nothing_whole(store)
    bucket.qwen()
    assert content(pulled(store)) == BUNDLE


def rewritten(change: Callable[[bytearray, int], None]) -> bytes:
    """A zip whose last file's entry in the directory was changed."""
    data = bytearray(zipped())
    change(data, data.rfind(b"PK\x01\x02"))
    return bytes(data)


def encrypt(data: bytearray, at: int) -> None:
    data[at + 8] |= 1


def grow(data: bytearray, at: int) -> None:
    struct.pack_into("<I", data, at + 24, 0xFFFFFF00)


def move(data: bytearray, at: int) -> None:
    struct.pack_into("<I", data, at + 42, 5)


def method(data: bytearray, at: int) -> None:
    struct.pack_into("<H", data, at + 10, 14)


BIN = {"metadata.json": METADATA, "a.bin": b"x"}
REFUSED: dict[str, tuple[bytes, str]] = {
    "no zip": (b"nothing of the kind" * 100, "not a usable zip"),
    "empty": (b"", "archive"),
    "cut off": (zipped()[:-1000], "not a usable zip"),
    "no bundle": (zipped({"readme.txt": b"x"}), "holds no bundle"),
    "no shard": (zipped({"metadata.json": METADATA}), "holds no bundle"),
    "leads out": (zipped(BIN, top="../"), "leads out"),
    "absolute": (zipped(BIN, top="/etc/"), "leads out"),
    "drive": (zipped(BIN, top="C:/"), "leads out"),
    "twice": (zipped({"metadata.json": METADATA, "x/a.bin": b"x", "y/a.bin": b"y"}), "same name"),
    "odd name": (zipped(BIN | {"b?.bin": b"x"}), "not every file system"),
    "encrypted": (rewritten(encrypt), "encrypted"),
    "absurd": (rewritten(grow), "refused|damaged"),
    "misplaced": (rewritten(move), "not where it should be"),
    "unknown method": (rewritten(method), "not known here"),
}


@pytest.mark.parametrize(("data", "says"), REFUSED.values(), ids=REFUSED)
def test_archives_that_are_refused(bucket: Bucket, store: Store, data: bytes, says: str) -> None:
    bucket.qwen(data)
    with pytest.raises((ModelFileError, HubError), match=says):
        pulled(store)
    assert not store.models.exists()


def test_what_is_no_part_of_a_bundle_stays_out(bucket: Bucket, store: Store) -> None:
    more = {"__MACOSX/._a.bin": b"x", "._b.bin": b"x", ".DS_Store": b"x", "empty.txt": b""}
    bucket.qwen(zipped(BUNDLE | more))
    assert content(pulled(store)) == BUNDLE


@pytest.mark.parametrize(
    ("name", "wish", "error", "says"),
    [
        pytest.param(NAME, PullWish(), ChipsetError, "config set chipset", id="no chipset"),
        pytest.param(f"{NAME}:W2", WISH, PrecisionNotFoundError, "W4A16", id="precision"),
        pytest.param(
            NAME, PullWish(files=("a.gguf",), machine=WISH.machine), UsageError, "--file", id="file"
        ),
        pytest.param(
            NAME,
            PullWish(machine=Machine(X2_ELITE, 81)),
            GenieXError,
            "X Elite CRD",
            id="other htp",
        ),
    ],
)
def test_refused_before_the_archive_is_read(
    bucket: Bucket, store: Store, name: str, wish: PullWish, error: type[GenieXError], says: str
) -> None:
    with pytest.raises(error) as caught:
        pulled(store, wish, name)
    assert says in f"{caught.value.message} {caught.value.hint}"
    assert bucket.asked(ZIP) == 0


@pytest.mark.parametrize("status", [403, 404])
def test_an_archive_that_is_gone(bucket: Bucket, store: Store, status: int) -> None:
    bucket.hub.faults["cdn"] = [Fault()] * 3 + [Fault(status=status)]
    with pytest.raises(HubNotFoundError, match="bundle of `Qwen3-4B` is not on"):
        pulled(store)


def test_two_precisions_are_two_bundles(bucket: Bucket, store: Store) -> None:
    url = bucket.put("models/w8.zip", zipped())
    pulled(store)
    bucket.put("models/qwen3_4b/assets.json", assets(asset(X_ELITE, "W8A16", url=url)))
    for path in (store.root / "aihub").rglob("*.json"):
        path.unlink()
    with pytest.raises(StoreError, match="already here, as qairt W4A16"):
        pulled(store, WISH, f"{NAME}:W8A16")
    assert [model.status for model in store.list()] == ["ready"]


def test_a_sibling_is_said(bucket: Bucket, store: Store) -> None:
    wish = PullWish(machine=Machine("qualcomm-snapdragon-x-plus-8-core", 73))
    plan = plan_pull(REF, store, wish)
    assert plan.delivery is not None
    assert "same HTP (v73)" in plan.delivery.notes[0]


def test_room_for_what_is_unpacked_is_asked_for(
    bucket: Bucket, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.qwen(zipped({"metadata.json": METADATA, "a.bin": bytes(8 << 20)}, stored="none"))
    monkeypatch.setattr("geniex_catalogue.pull_plan.free_at", lambda folder: 6 << 20)
    with pytest.raises(DiskSpaceError):
        pulled(store)


def test_unpacking_stops_at_the_stated_size(tmp_path: Path) -> None:
    squeezed = zipped({"x": bytes(4 << 20)}, stored="none")
    member = zipfile.ZipFile(io.BytesIO(squeezed)).getinfo("b/x")
    first = member.header_offset + 30 + len("b/x")
    part = tmp_path / "x.partial"
    part.write_bytes(squeezed[first : first + member.compress_size])
    with pytest.raises(ChecksumError, match="archive states 1000"):
        unpacking.unpacked(part, Packing(1000, member.CRC, True), "x", "")
    assert not any(tmp_path.glob("x.partial*"))


def test_a_large_archive_has_another_kind_of_directory(
    bucket: Bucket, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    data = zipped()
    monkeypatch.undo()
    assert b"PK\x06\x06" in data
    bucket.qwen(data)
    monkeypatch.setenv("GENIEX_AIHUBBASEURL", bucket.base)
    assert content(pulled(store)) == BUNDLE
