"""What is imported: folders and zips, a bundle among them."""

import zipfile
from pathlib import Path


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Make these files below a folder, and give the folder."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def pack(folder: Path, files: dict[str, bytes], top: str = "") -> Path:
    """A zip of these files, with `top` before their names."""
    path = folder / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(top + name, data)
    return path


BUNDLE = {
    "metadata.json": b'{"precision": "w8a16"}',
    "genie_config.json": b"{}",
    "part_1_of_1.bin": b"weights",
    "__MACOSX/._x": b"junk",
    ".DS_Store": b"junk",
}
