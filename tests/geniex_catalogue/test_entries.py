"""Entries: the shipped ones, and that faulty ones are all reported at once."""

from pathlib import Path

import pytest

from geniex_catalogue import entries, names, precision
from geniex_catalogue.entries import Catalogue, Entry, catalogue, load
from geniex_catalogue.errors import (
    CatalogueError,
    ModelNotFoundError,
    PrecisionNotFoundError,
)
from geniex_catalogue.gguf import read_header

TARGET = "google/gemma-4-26B-A4B-it-qat-q4_0-gguf:Q4_0"
DRAFT = "RachidAR/gemma-4-26B-A4B-it-qat-assistant-q4_0-gguf:Q4_0"


def resolve(text: str) -> str:
    return str(names.parse(text, catalogue().aliases))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("tiny", "geniex/tiny-chat:Q8_0", id="tiny"),
        pytest.param("Tiny-Chat", "geniex/tiny-chat:Q8_0", id="tiny-chat"),
        pytest.param("qwen3", "ggml-org/Qwen3-1.7B-GGUF:Q4_K_M", id="qwen3"),
        pytest.param("qwen3:q8_0", "ggml-org/Qwen3-1.7B-GGUF:Q8_0", id="qwen3-other"),
        pytest.param(
            "llama_v3_2_3b_instruct", "qualcomm/Llama-v3.2-3B-Instruct", id="ai-hub-identifier"
        ),
        pytest.param("gemma-4-26b-qat", TARGET, id="tutorial-target"),
        pytest.param("gemma-4-26b-qat-draft", DRAFT, id="tutorial-draft"),
    ],
)
def test_shipped_aliases(text: str, expected: str) -> None:
    assert resolve(text) == expected


def test_every_shipped_alias_resolves() -> None:
    assert len(catalogue().entries) >= 20
    for alias, full in catalogue().aliases.items():
        assert resolve(alias) == full
        assert resolve(alias.upper()) == full


def test_drafts() -> None:
    drafts = {
        "geniex/tiny-chat": "geniex/tiny-chat-draft:Q8_0",
        "GENIEX/Tiny-Chat:Q8_0": "geniex/tiny-chat-draft:Q8_0",
        TARGET: DRAFT,
    }
    for target, draft in drafts.items():
        assert str(catalogue().draft_for(names.parse(target))) == draft
    for other in ("geniex/tiny-chat-draft", "ggml-org/Qwen3-1.7B-GGUF", "nobody/nothing"):
        assert catalogue().draft_for(names.parse(other)) is None


@pytest.mark.parametrize(
    ("text", "role"), [pytest.param("tiny", "model"), pytest.param("tiny-draft", "draft")]
)
def test_the_built_in_pair_is_there(text: str, role: str) -> None:
    ref = names.parse(text, catalogue().aliases)
    for asked in (ref, ref.without_selector()):
        found = catalogue().builtin_file(asked)
        assert found is not None
        label, path = found
        assert label == "Q8_0"
        assert isinstance(path, Path)
        header = read_header(path)
        assert header.role == role
        assert precision.label_of_file_type(header.file_type or 0) == "Q8_0"
        by_file = names.ModelRef(ref.org, ref.repo, file=path.name)
        assert catalogue().builtin_file(by_file) == found


def test_the_built_in_pair_has_one_precision() -> None:
    with pytest.raises(PrecisionNotFoundError, match="available: Q8_0"):
        catalogue().builtin_file(names.parse("geniex/tiny-chat:Q4_0"))
    with pytest.raises(ModelNotFoundError, match=r"other\.gguf"):
        catalogue().builtin_file(names.parse("geniex/tiny-chat:other.gguf"))


def test_other_models_are_not_built_in() -> None:
    assert catalogue().builtin_file(names.parse("ggml-org/Qwen3-1.7B-GGUF")) is None
    assert catalogue().builtin_file(names.parse("nobody/nothing")) is None


def test_a_built_in_file_that_is_gone_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "_BUILTIN", tmp_path)

    with pytest.raises(CatalogueError, match=r"tiny-chat-Q8_0\.gguf"):
        catalogue().builtin_file(names.parse("geniex/tiny-chat"))


def test_suggestions() -> None:
    assert "qwen3-4b-instruct" in catalogue().suggestions("Qwen3-4B-Instrct")
    assert "smollm2" in catalogue().suggestions("smollm")
    assert catalogue().suggestions("zzzzzzzz") == ()


def test_an_entry_is_found_in_any_case() -> None:
    entry = Entry("Org/Repo", ("r",), precision="Q4_0")
    found = Catalogue([entry])

    assert found.entry(names.parse("org/REPO:Q8_0")) is entry
    assert found.aliases == {"r": "Org/Repo:Q4_0"}


FAULTS = {
    "syntax": ("[[entry]\nname = 1", "syntax.toml"),
    "unknown-key": ('[[entry]]\nname = "a/b"\naliases = ["ab"]\nurl = "x"', "unknown key `url`"),
    "unknown-table": ('[other]\nx = 1\n[[entry]]\nname = "a/b"\naliases = ["ab"]', "key `other`"),
    "not-a-list": ('[entry]\nname = "a/b"', "not written as"),
    "not-a-table": ("entry = [1]", "not a table"),
    "no-name": ('[[entry]]\naliases = ["ab"]', "`name` is missing"),
    "bad-name": ('[[entry]]\nname = "a/../b"\naliases = ["ab"]', "`name`: "),
    "name-with-precision": ('[[entry]]\nname = "a/b:Q4_0"\naliases = ["ab"]', "not written as"),
    "name-not-canonical": ('[[entry]]\nname = "Qualcomm/b"\naliases = ["ab"]', "`qualcomm/b`"),
    "bare-name": ('[[entry]]\nname = "ab"\naliases = ["ab"]', "`name`: "),
    "no-alias": ('[[entry]]\nname = "a/b"', "`aliases` is missing"),
    "alias-upper": ('[[entry]]\nname = "a/b"\naliases = ["AB"]', "`AB` is not an alias"),
    "alias-drive": ('[[entry]]\nname = "a/b"\naliases = ["c"]', "`c` is not an alias"),
    "alias-slash": ('[[entry]]\nname = "a/b"\naliases = ["a/b"]', "`a/b` is not an alias"),
    "alias-number": ('[[entry]]\nname = "a/b"\naliases = [7]', "`7` is not an alias"),
    "precision": ('[[entry]]\nname = "a/b"\naliases = ["ab"]\nprecision = "q4"', "`q4` is not"),
    "precision-type": ('[[entry]]\nname = "a/b"\naliases = ["ab"]\nprecision = 4', "not text"),
    "draft": ('[[entry]]\nname = "a/b"\naliases = ["ab"]\ndraft = "x"', "`draft`: "),
    "builtin": ('[[entry]]\nname = "a/b"\naliases = ["ab"]\nbuiltin = 1', "`builtin` is not"),
    "builtin-path": (
        '[[entry]]\nname = "a/b"\naliases = ["ab"]\nbuiltin = { Q8_0 = "../x.gguf" }',
        "`../x.gguf` is not the name",
    ),
}


@pytest.mark.parametrize(
    ("key", "text", "problem"), [pytest.param(key, *case, id=key) for key, case in FAULTS.items()]
)
def test_a_fault_is_named_with_its_file(tmp_path: Path, key: str, text: str, problem: str) -> None:
    (tmp_path / f"{key}.toml").write_text(text, encoding="utf-8")

    with pytest.raises(CatalogueError) as caught:
        load(tmp_path)

    assert any(f"{key}.toml" in line and problem in line for line in caught.value.problems) or (
        key in ("syntax",) and problem in caught.value.message
    )


def test_all_faults_of_all_files_come_at_once(tmp_path: Path) -> None:
    for key, (text, _) in FAULTS.items():
        (tmp_path / f"{key}.toml").write_text(text, encoding="utf-8")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")

    with pytest.raises(CatalogueError) as caught:
        load(tmp_path)

    for key in (*FAULTS, "bytes"):
        assert any(line.startswith(f"{key}.toml") for line in caught.value.problems), key


def test_two_entries_cannot_share_a_word(tmp_path: Path) -> None:
    text = '[[entry]]\nname = "a/b"\naliases = ["ab"]\n[[entry]]\nname = "A/B"\naliases = ["ab"]'
    (tmp_path / "x.toml").write_text(text, encoding="utf-8")

    with pytest.raises(CatalogueError) as caught:
        load(tmp_path)

    assert len(caught.value.problems) == 2
