"""Manifests that a folder brings along."""

import json
from pathlib import Path

import pytest

from geniex_catalogue.errors import GenieXError, GGUFError, ManifestError, UsageError
from geniex_catalogue.hubs.localfs import import_path
from geniex_catalogue.store import Store
from tests.geniex_catalogue.hubs.localfs.outcome import REF, names, untouched
from tests.geniex_catalogue.hubs.localfs.sources import write
from tests.ggufwriter import small


def shipped(**models: str) -> bytes:
    files = {k: {"Name": v, "Downloaded": True, "Size": len(small())} for k, v in models.items()}
    return json.dumps({"Name": "x/y", "ModelFile": files, "Note": 1}).encode()


def test_a_shipped_manifest_is_honoured(store: Store, tmp_path: Path) -> None:
    manifest = shipped(SPECIAL="a.gguf", OTHER="b.gguf")
    folder = write(
        tmp_path / "src",
        {"geniex.json": manifest, "a.gguf": small(), "b.gguf": small(), "c.gguf": small()},
    )
    model = import_path(REF, folder, store)
    assert set(model.precisions) == {"SPECIAL", "OTHER"}
    assert model.manifest is not None
    assert (model.manifest.name, model.manifest.other) == ("local/mine", {"Note": 1})
    assert names(store) == {"a.gguf", "b.gguf"}


@pytest.mark.parametrize(
    ("manifest", "error"),
    [
        pytest.param(b"{", ManifestError, id="damaged"),
        pytest.param(shipped(Q4_0="gone.gguf"), UsageError, id="missing file"),
        pytest.param(shipped(Q4_0="../secret"), ManifestError, id="leads out"),
        pytest.param(shipped(Q4_0="short.gguf"), UsageError, id="wrong size"),
        pytest.param(shipped(Q4_0="junk.gguf"), GGUFError, id="no GGUF"),
        pytest.param(shipped(), UsageError, id="empty"),
    ],
)
def test_a_bad_shipped_manifest(
    store: Store, tmp_path: Path, manifest: bytes, error: type[GenieXError]
) -> None:
    files = {"geniex.json": manifest, "short.gguf": b"x", "junk.gguf": b"x" * len(small())}
    with pytest.raises(error):
        import_path(REF, write(tmp_path / "src", files), store)
    assert untouched(store)
