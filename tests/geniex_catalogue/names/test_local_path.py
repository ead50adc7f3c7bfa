"""Paths: what exists on this machine goes before any name."""

import sys
from pathlib import Path

import pytest
from hypothesis import given

from geniex_catalogue.names import local_path
from tests.geniex_catalogue.names.typed import TEXTS

# no colon in file names there, and links need rights
_NOT_ON_WINDOWS = pytest.mark.skipif(sys.platform == "win32", reason="not possible on Windows")


class TestLocalPath:
    """What exists on this machine goes before any name."""

    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.chdir(tmp_path)
        return tmp_path

    @pytest.mark.parametrize(
        "name",
        [
            "m.gguf",
            "tiny",
            "org/repo",
            pytest.param("a:b.gguf", marks=_NOT_ON_WINDOWS),
            pytest.param("C:x.gguf", marks=_NOT_ON_WINDOWS),
            "with space.gguf",
            "ünïcödé.gguf",
            "a/b/c.gguf",
            "'quoted.gguf'",
        ],
    )
    def test_a_file_wins(self, here: Path, name: str) -> None:
        file = here / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()

        assert local_path(name) == Path(name)
        assert local_path(str(file)) == file

    def test_spaces_and_quotes_around_a_path_do_not_count(self, here: Path) -> None:
        (here / "m.gguf").touch()

        assert local_path(" './m.gguf' ") == Path("m.gguf")

    def test_home_is_expanded(self, here: Path) -> None:
        (here / "home" / "m.gguf").touch()

        assert local_path("~/m.gguf") == here / "home" / "m.gguf"

    def test_a_file_address_is_a_path(self, here: Path) -> None:
        (here / "my model.gguf").touch()

        assert local_path((here / "my model.gguf").as_uri()) == here / "my model.gguf"

    def test_a_folder_written_as_a_path(self, here: Path) -> None:
        (here / "empty").mkdir()

        assert local_path("./empty") == Path("empty")
        assert local_path(str(here)) == here
        assert local_path(".") == Path()

    def test_a_folder_that_looks_like_a_name_needs_a_model(self, here: Path) -> None:
        folder = here / "org" / "repo"
        folder.mkdir(parents=True)
        assert local_path("org/repo") is None

        (folder / "m.GGUF").touch()
        assert local_path("org/repo") == Path("org/repo")

    def test_a_folder_with_a_folder_per_precision(self, here: Path) -> None:
        (here / "tiny" / "Q4_0").mkdir(parents=True)
        (here / "tiny" / "Q4_0" / "m.gguf").touch()

        assert local_path("tiny") == Path("tiny")

    def test_a_compiled_bundle(self, here: Path) -> None:
        (here / "bundle").mkdir()
        (here / "bundle" / "metadata.json").touch()
        assert local_path("bundle") is None

        (here / "bundle" / "part1.bin").touch()
        assert local_path("bundle") == Path("bundle")

    @_NOT_ON_WINDOWS
    def test_links_are_kept(self, here: Path) -> None:
        (here / "blob").touch()
        (here / "m-00001-of-00002.gguf").symlink_to("blob")

        assert local_path("m-00001-of-00002.gguf") == Path("m-00001-of-00002.gguf")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "\0",
            "a\0b.gguf",
            "x" * 5000,
            "missing.gguf",
            "~nobody-of-this-name/x",
            "org/repo:Q4_0",
            "\udcff.gguf",
        ],
    )
    def test_nothing_there(self, text: str) -> None:
        assert local_path(text) is None


@given(TEXTS)
def test_local_path_takes_any_text(text: str) -> None:
    found = local_path(text)

    assert found is None or found.exists()
