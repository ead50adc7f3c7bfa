"""Odd names of files: stored as safe ones, or refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from geniex_catalogue.errors import UsageError
from geniex_catalogue.hubs.localfs import Mode, import_path
from geniex_catalogue.names import parse
from geniex_catalogue.resolver import ResolvedModel, resolve
from geniex_catalogue.store import Store
from tests.geniex_catalogue.hubs.localfs.outcome import REF, untouched
from tests.geniex_catalogue.hubs.localfs.sources import write
from tests.ggufwriter import small

ODD_NAMES = {
    "a:Q8_0.gguf": "a_Q8_0.gguf",
    "two\nlines-Q8_0.gguf": "two_lines-Q8_0.gguf",
    "con.Q8_0.gguf": "_con.Q8_0.gguf",
    "not-\udcff-utf8-Q8_0.gguf": "not-_-utf8-Q8_0.gguf",
    " m%41-Q8_0.gguf": "_m_41-Q8_0.gguf",
}


@pytest.mark.skipif(os.name == "nt", reason="Windows takes no such names")
@pytest.mark.parametrize("mode", ["copy", "link", "in_place"])
@pytest.mark.parametrize(("name", "stored"), ODD_NAMES.items(), ids=ascii)
def test_odd_names_are_stored_as_safe_ones(
    store: Store, tmp_path: Path, name: str, stored: str, mode: Mode
) -> None:
    folder = write(tmp_path / "src", {name: small()})
    for path in (folder / name, folder):
        if mode == "in_place" and "\udcff" in name:
            with pytest.raises(UsageError, match="not UTF-8"):
                import_path(REF, path, store, mode)
            assert untouched(store)
            continue
        model = import_path(REF, path, store, mode)
        assert (model.status, model.precisions) == ("ready", ("Q8_0",))
        assert [record.name for record in model.records("Q8_0")] == [stored]
        assert isinstance(resolve("local/mine:Q8_0", store), ResolvedModel)
        store.remove(REF)
        assert (folder / name).exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows takes no such names")
def test_two_files_that_would_get_one_name(store: Store, tmp_path: Path) -> None:
    folder = write(tmp_path / "src", {"m?.gguf": small(), "m*.gguf": small()})
    with pytest.raises(UsageError, match=r"would both be stored as `m_\.gguf`"):
        import_path(REF, folder, store)
    assert untouched(store)


ASCII = """
import sys
from pathlib import Path
from geniex_catalogue.errors import GenieXError
from geniex_catalogue.names import parse
from geniex_catalogue.names import parse
from geniex_catalogue.resolver import resolve
from geniex_catalogue.store import Store
try:
    resolve("local/m", Store(Path(sys.argv[1])))
except GenieXError as exc:
    print(exc.hint)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has Unicode names")
def test_a_locale_that_cannot_name_a_file_is_what_the_hint_is_about(
    store: Store, tmp_path: Path
) -> None:
    folder = write(tmp_path / "src", {"m\xf6del-Q8_0.gguf": small()})
    import_path(parse("local/m"), folder / "m\xf6del-Q8_0.gguf", store)
    root = Path(__file__).parents[4]
    path = os.pathsep.join(str(root / part) for part in ("catalogue", "runtimes", "."))
    ascii_locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ended = subprocess.run(
        [sys.executable, "-c", ASCII, str(store.root)],
        env={**os.environ, "PYTHONPATH": path, **ascii_locale},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "LC_ALL=C.UTF-8" in ended.stdout, ended.stderr
