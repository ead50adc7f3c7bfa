"""Files that a path leads to: what they are, and which are no models."""

from pathlib import Path

import pytest

from geniex_catalogue.errors import GGUFError, LoadError, ModelPathError
from geniex_catalogue.resolver import resolve
from geniex_catalogue.store import Store
from tests.geniex_catalogue.resolver.files import found, write
from tests.ggufwriter import small


def test_a_file(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, **{"m-Q4_K_M": small()})
    monkeypatch.chdir(tmp_path)
    model = found("m-Q4_K_M.gguf", store)
    assert (model.name, model.ref, model.format) == ("m-Q4_K_M.gguf", None, "gguf")
    assert (model.path, model.files) == (Path("m-Q4_K_M.gguf"), (Path("m-Q4_K_M.gguf"),))
    assert (model.precision, model.size) == ("Q4_K_M", len(small()))
    assert model.header is not None
    assert model.header.architecture == "llama"


@pytest.mark.parametrize(
    ("name", "keys", "label"),
    [
        pytest.param("m-Q8_0", {"general__file_type": 2}, "Q8_0", id="the name goes first"),
        pytest.param("UD-Q5_K_XL__m", {}, "UD-Q5_K_XL", id="then the folder"),
        pytest.param("plain__m", {"general__file_type": 2}, "Q4_0", id="then the metadata"),
        pytest.param("plain__m", {}, None, id="or nothing"),
    ],
)
def test_precision_of_a_file(
    tmp_path: Path, store: Store, name: str, keys: dict[str, int], label: str | None
) -> None:
    write(tmp_path, **{name: small("llama", None, **keys)})
    path = tmp_path / f"{name.replace('__', '/')}.gguf"
    assert found(str(path), store).precision == label


NOT_MODELS: dict[str, tuple[bytes, str, str]] = {
    "draft": (small("gemma4-assistant"), "a draft", "--draft-model"),
    "eagle": (small("eagle3"), "a draft", "--draft-model"),
    "projector": (small("clip"), "a projector", "the model that it belongs to"),
    "lora": (small(general__type="adapter"), "an adapter", "made for"),
    "imatrix": (small(general__type="imatrix"), "an importance matrix", "a model"),
}


@pytest.mark.parametrize(("data", "what", "hint"), NOT_MODELS.values(), ids=NOT_MODELS)
def test_files_that_are_no_models(
    tmp_path: Path, store: Store, data: bytes, what: str, hint: str
) -> None:
    write(tmp_path, m=data)
    with pytest.raises(LoadError, match=what) as caught:
        resolve(str(tmp_path / "m.gguf"), store)
    assert hint in str(caught.value.hint)


def test_a_draft_is_wanted_as_a_draft(tmp_path: Path, store: Store) -> None:
    write(tmp_path, m=small("gemma4-assistant"), p=small("clip"))
    assert found(str(tmp_path / "m.gguf"), store, "draft").header is not None
    with pytest.raises(LoadError, match="projector"):
        resolve(str(tmp_path / "p.gguf"), store, "draft")


@pytest.mark.parametrize("text", ["nope.gguf", "./nope", "/no/such/dir/x.gguf", "~/nope.gguf"])
def test_a_path_where_nothing_is(store: Store, text: str) -> None:
    with pytest.raises(ModelPathError, match="does not exist"):
        resolve(text, store)


def test_a_zip_says_how_to_import_it(tmp_path: Path, store: Store) -> None:
    (tmp_path / "b.zip").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(GGUFError, match="zip") as caught:
        resolve(str(tmp_path / "b.zip"), store)
    assert "--local-path" in str(caught.value.hint)
