"""What a name means is remembered for as long as it holds."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from geniex.config import Settings
from geniex.server import finder as finders
from geniex.server.finder import Finder, identity_of
from geniex_catalogue import resolver
from geniex_catalogue.errors import AmbiguousModelError, ModelNotFoundError, StoreError
from geniex_catalogue.gguf import read_header
from geniex_runtimes.errors import SpeculativeError


@pytest.fixture
def headers(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files whose headers were read, in order."""
    seen: list[Path] = []

    def reading(path: Path) -> object:
        seen.append(path)
        return read_header(path)

    monkeypatch.setattr(resolver, "read_header", reading)
    return seen


@pytest.fixture
def finder(tmp_path: Path) -> Finder:
    return Finder(Settings(data_dir=tmp_path / "data"))


@pytest.fixture
def folder(tmp_path: Path, tiny_chat: Path) -> Path:
    made = tmp_path / "models"
    made.mkdir()
    shutil.copy(tiny_chat, made / "a.gguf")
    return made


def test_a_header_is_read_once(finder: Finder, headers: list[Path]) -> None:
    first = finder.model("geniex/tiny-chat")
    read = len(headers)
    assert finder.model("geniex/tiny-chat") is first and len(headers) == read > 0
    assert finder.draft("geniex/tiny-chat-draft") is finder.draft("geniex/tiny-chat-draft")


def test_a_changed_file_is_looked_at_again(finder: Finder, folder: Path, tiny_chat: Path) -> None:
    name = str(folder / "a.gguf")
    before = finder.model(name)
    old = identity_of(before)
    Path(shutil.copy(tiny_chat, folder / "new")).replace(name)
    after = finder.model(name)
    assert after is not before and identity_of(after) != old
    Path(name).unlink()
    with pytest.raises(ModelNotFoundError):
        finder.model(name)


def test_another_file_in_the_folder_counts(finder: Finder, folder: Path, tiny_chat: Path) -> None:
    assert finder.model(str(folder)).path.name == "a.gguf"
    shutil.copy(tiny_chat, folder / "b.gguf")
    with pytest.raises(AmbiguousModelError):
        finder.model(str(folder))


def test_a_folder_of_a_models_name_is_no_model_of_the_server(
    tmp_path: Path, tiny_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("geniex/tiny-chat", "geniex/tiny-chat-draft", "acme/other"):
        (tmp_path / name).mkdir(parents=True)
        shutil.copy(tiny_chat, tmp_path / name / "a.gguf")
    monkeypatch.chdir(tmp_path)
    finder = Finder(Settings(data_dir=tmp_path / "data"), frozenset({"acme/other"}))
    assert finder.model("geniex/tiny-chat").name == "geniex/tiny-chat:Q8_0"
    assert finder.draft("geniex/tiny-chat-draft").name == "geniex/tiny-chat-draft:Q8_0"
    assert finder.model("acme/other").path.name == "a.gguf"
    with pytest.raises(ModelNotFoundError):
        Finder(Settings(data_dir=tmp_path / "data"), frozenset()).model("acme/other")


def test_what_appears_in_the_store_comes_before_the_built_in_one(
    finder: Finder, tmp_path: Path
) -> None:
    finder.model("geniex/tiny-chat")
    place = tmp_path / "data" / "models" / "geniex" / "tiny-chat"
    place.mkdir(parents=True)
    (place / "tiny-chat-Q8_0.gguf").write_bytes(b"half a model")
    with pytest.raises(StoreError, match=r"geniex\.json"):
        finder.model("geniex/tiny-chat")


def test_a_name_that_becomes_a_path(
    finder: Finder, tmp_path: Path, tiny_chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    built_in = finder.model("geniex/tiny-chat")
    (tmp_path / "geniex").mkdir()
    shutil.copy(tiny_chat, tmp_path / "geniex" / "tiny-chat")
    assert finder.model("geniex/tiny-chat").path != built_in.path


def test_the_same_name_as_model_and_as_draft(finder: Finder) -> None:
    assert finder.draft("geniex/tiny-chat-draft").header
    with pytest.raises(Exception, match="is a draft"):
        finder.model("geniex/tiny-chat-draft")


def test_a_draft_that_cannot_be_read(finder: Finder, tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_text("no GGUF")
    with pytest.raises(SpeculativeError, match="cannot be used"):
        finder.draft(str(tmp_path / "x.gguf"))


def test_only_so_many_names_are_remembered(
    finder: Finder, folder: Path, monkeypatch: pytest.MonkeyPatch, headers: list[Path]
) -> None:
    monkeypatch.setattr(finders, "_REMEMBERED", 2)
    names = ["geniex/tiny-chat", str(folder), str(folder / "a.gguf")]
    for name in names:
        finder.model(name)
    read = len(headers)
    finder.model(names[2])
    assert len(headers) == read
    finder.model(names[0])
    assert len(headers) > read


def test_many_threads_that_find_many_names_do_not_meet(
    finder: Finder, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = finder.model("geniex/tiny-chat")
    monkeypatch.setattr(Finder, "_look", lambda self, name, model: ())

    def remember(number: int) -> None:
        for count in range(10_000):
            finder._remember(f"{number} {count}", found, draft=False)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(remember, range(8))) == [None] * 8
    finally:
        sys.setswitchinterval(interval)
    assert len(finder._known) == finders._REMEMBERED
