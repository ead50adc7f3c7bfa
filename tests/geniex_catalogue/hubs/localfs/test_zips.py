"""Zips: unpacked, or refused before anything is."""

import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from geniex_catalogue.errors import ModelFileError, UsageError
from geniex_catalogue.hubs.localfs import Mode, import_path
from geniex_catalogue.store import Store
from tests.geniex_catalogue.hubs.localfs.outcome import REF, Recorder, names, untouched
from tests.geniex_catalogue.hubs.localfs.sources import BUNDLE, pack, write
from tests.ggufwriter import small


@pytest.mark.parametrize("top", ["", "bundle/", "a/b/"])
def test_a_zipped_bundle(store: Store, tmp_path: Path, top: str) -> None:
    seen = Recorder()
    model = import_path(REF, pack(tmp_path, BUNDLE, top), store, progress=seen)
    assert (model.format, model.precisions) == ("qairt", ("W8A16",))
    assert names(store) == {"metadata.json", "genie_config.json", "part_1_of_1.bin"}
    assert (store.folder(REF) / "part_1_of_1.bin").read_bytes() == b"weights"
    assert seen.bytes == sum(len(BUNDLE[name]) for name in names(store))


def test_zipped_ggufs_keep_their_folders(store: Store, tmp_path: Path) -> None:
    files = {"Q4_0/m.gguf": small(), "Q8_0/m.gguf": small(), "README.md": b"x"}
    model = import_path(REF, pack(tmp_path, files, "top/"), store)
    assert model.precisions == ("Q4_0", "Q8_0")
    assert names(store) == {"Q4_0/m.gguf", "Q8_0/m.gguf"}


@pytest.mark.parametrize("mode", ["link", "in_place"])
def test_a_zip_can_only_be_copied(store: Store, tmp_path: Path, mode: Mode) -> None:
    with pytest.raises(UsageError, match="unpacked"):
        import_path(REF, pack(tmp_path, BUNDLE), store, mode)


@pytest.mark.parametrize(
    ("names_in", "stored"),
    [
        pytest.param(["./m.gguf"], {"m.gguf"}, id="dot slash"),
        pytest.param(["./a/./m.gguf", "a//n-Q8_0.gguf"], {"m.gguf", "n-Q8_0.gguf"}, id="dots"),
        pytest.param(["con.gguf"], {"_con.gguf"}, id="device"),
        pytest.param(["m|n.gguf", "docs/why?.md"], {"m_n.gguf"}, id="odd characters"),
        pytest.param(["geniex.json", "m.gguf"], {"m.gguf"}, id="manifest of its own"),
        pytest.param([".inflight/x.gguf", "m.gguf"], {"m.gguf"}, id="unfinished files"),
    ],
)
def test_names_in_a_zip(
    store: Store, tmp_path: Path, names_in: list[str], stored: set[str]
) -> None:
    model = import_path(REF, pack(tmp_path, dict.fromkeys(names_in, small())), store)
    assert model.status == "ready"
    assert names(store) == stored


def entry(name: str, mode: int = 0, flags: int = 0) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    info.flag_bits |= flags
    return info


def spoiled(folder: Path, *extra: tuple[zipfile.ZipInfo, bytes]) -> Path:
    path = pack(folder, {name: BUNDLE[name] for name in list(BUNDLE)[:3]})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for info, data in extra:
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return path


def encrypted(folder: Path) -> Path:
    """A zip whose entries say that they are encrypted."""
    path = pack(folder, BUNDLE)
    data = bytearray(path.read_bytes())
    for magic, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := data.find(magic, start + 1)) >= 0:
            data[start + at] |= 1
    path.write_bytes(data)
    return path


def flipped(folder: Path) -> Path:
    """A zip whose content does not have its checksum."""
    path = folder / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in BUNDLE.items():
            archive.writestr(name, data)
    data = path.read_bytes().replace(b"weights", b"weightz", 1)
    path.write_bytes(data)
    return path


def cut(folder: Path) -> Path:
    path = pack(folder, BUNDLE)
    path.write_bytes(path.read_bytes()[:-40])
    return path


def bomb(folder: Path) -> Path:
    path = pack(folder, {"metadata.json": b"{}"})
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.bin", "w") as out,
    ):
        for _ in range(300):
            out.write(bytes(1 << 20))
    return path


def long_list(folder: Path, *, wide: bool = False) -> Path:
    """A zip whose list of entries says that it is 4 GiB long."""
    path = pack(folder, BUNDLE)
    data = bytearray(path.read_bytes())
    end = data.rfind(b"PK\x05\x06")
    if wide:
        record = b"PK\x06\x06" + bytes(36) + (1 << 40).to_bytes(8, "little") + bytes(8)
        data[end:end] = record + b"PK\x06\x07" + bytes(16)
    else:
        data[end + 12 : end + 16] = b"\xff\xff\xff\xfe"
    path.write_bytes(data)
    return path


BAD_ZIPS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "leads out": (lambda f: spoiled(f, (entry("../../evil.bin"), b"x")), "leads out"),
    "absolute": (lambda f: spoiled(f, (entry("/evil.bin"), b"x")), "leads out"),
    "drive": (lambda f: spoiled(f, (entry("C:/evil.bin"), b"x")), "leads out"),
    "backslashes": (lambda f: spoiled(f, (entry("..\\evil.bin"), b"x")), "leads out"),
    "folder that leads out": (lambda f: spoiled(f, (entry("../evil/"), b"")), "leads out"),
    "link": (lambda f: spoiled(f, (entry("l.bin", stat.S_IFLNK | 0o777), b"/etc/passwd")), "link"),
    "device": (lambda f: spoiled(f, (entry("d.bin", stat.S_IFCHR | 0o777), b"")), "device"),
    "same base name": (
        lambda f: spoiled(f, (entry("other/part_1_of_1.bin"), b"x")),
        "same name",
    ),
    "same name in another case": (
        lambda f: spoiled(f, (entry("METADATA.json"), b"x")),
        "differs only in case from `metadata.json`",
    ),
    "model of another case": (
        lambda f: pack(f, {"m.gguf": small(), "M.gguf": small()}),
        "differs only in case from `m.gguf`",
    ),
    "two that would get one name": (
        lambda f: pack(f, {"m?.gguf": small(), "m*.gguf": small()}),
        "same name as another, `m_.gguf`",
    ),
    "a device among a bundle": (
        lambda f: spoiled(f, (entry("con.bin"), b"x")),
        "not every file system takes",
    ),
    "long": (lambda f: pack(f, {"m" * 300 + ".gguf": small()}), "longer than 255 bytes"),
    "encrypted": (encrypted, "encrypted"),
    "bad checksum": (flipped, "damaged"),
    "cut": (cut, "not a usable zip"),
    "bomb": (bomb, "unpack to"),
    "long list of entries": (long_list, "the list of its entries has 4278190079 bytes"),
    "long list of a wide zip": (lambda f: long_list(f, wide=True), "has 1099511627776 bytes"),
    "nothing": (lambda f: write(f, {"model.zip": b""}) / "model.zip", "not a usable zip"),
}


@pytest.mark.parametrize(("make", "reason"), BAD_ZIPS.values(), ids=BAD_ZIPS)
def test_bad_zips_are_refused(
    store: Store, tmp_path: Path, make: Callable[[Path], Path], reason: str
) -> None:
    path = make(tmp_path)
    before = {p for p in tmp_path.rglob("*") if not p.is_relative_to(store.root)}
    with pytest.raises(ModelFileError) as caught:
        import_path(REF, path, store)
    assert reason in caught.value.message
    assert str(path) in caught.value.message
    assert {p for p in tmp_path.rglob("*") if not p.is_relative_to(store.root)} == before
    assert untouched(store)
