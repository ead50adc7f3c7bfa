"""Names: what is one, what is none, and that none leads out of the store."""

import dataclasses
import sys
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geniex_catalogue.errors import (
    GenieXError,
    ModelNotFoundError,
    ModelPathError,
    ModelRefError,
)
from geniex_catalogue.names import (
    ModelRef,
    check_file_name,
    local_path,
    parse,
    storable,
    suggest,
)

# no colon in file names there, and links need rights
_NOT_ON_WINDOWS = pytest.mark.skipif(sys.platform == "win32", reason="not possible on Windows")

ALIASES = {
    "qwen3": "ggml-org/Qwen3-1.7B-GGUF:Q4_K_M",
    "qwen3-4b": "Qwen/Qwen3-4B-GGUF:Q4_K_M",
    "tiny": "geniex/tiny-chat:Q8_0",
    "llama-3.2-1b": "unsloth/Llama-3.2-1B-Instruct-GGUF:Q4_K_M",
    "phi-npu": "qualcomm/Phi-3.5-Mini-Instruct",
}

NAMES = {
    # the form itself
    "plain": ("org/repo", "org/repo"),
    "case-is-kept": ("Org/Repo-GGUF", "Org/Repo-GGUF"),
    "dots-and-dashes": ("a.b-c_d/e.f-g_h", "a.b-c_d/e.f-g_h"),
    "digits": ("01-ai/4.5", "01-ai/4.5"),
    "leading-underscore": ("_x/_y", "_x/_y"),
    "double-dash": ("local/a--b", "local/a--b"),
    "local": ("local/smol", "local/smol"),
    "org-is-one-letter": ("C/repo", "C/repo"),
    "org-named-hf": ("hf/repo", "hf/repo"),
    "repo-ends-with-gguf-dash": ("x/y-gguf", "x/y-gguf"),
    # precision
    "precision": ("org/repo:Q4_K_M", "org/repo:Q4_K_M"),
    "precision-lower": ("org/repo:q4_k_m", "org/repo:Q4_K_M"),
    "precision-mixed": ("org/repo:Ud-q4_K_xl", "org/repo:UD-Q4_K_XL"),
    "precision-w4a16": ("org/repo:w4a16", "org/repo:W4A16"),
    "precision-unknown-word": ("org/repo:DEFAULT", "org/repo:DEFAULT"),
    "precision-empty": ("org/repo:", "org/repo"),
    "precision-spaces": ("org/repo : q8_0 ", "org/repo:Q8_0"),
    "precision-slash-behind": ("org/repo:Q8_0/", "org/repo:Q8_0"),
    # file
    "file": ("org/repo:model.gguf", "org/repo:model.gguf"),
    "file-in-folder": ("o/r:Q4_K_M/x-00001-of-00003.gguf", "o/r:Q4_K_M/x-00001-of-00003.gguf"),
    "file-in-two-folders": ("o/r:a/b/x.gguf", "o/r:a/b/x.gguf"),
    "file-upper-ending": ("o/r:X.GGUF", "o/r:X.GGUF"),
    "file-with-space": ("o/r:my model.gguf", "o/r:my model.gguf"),
    "file-not-ascii": ("o/r:modèle-Q4_0.gguf", "o/r:modèle-Q4_0.gguf"),
    "file-slash-before": ("o/r:/x.gguf", "o/r:x.gguf"),
    # what surrounds
    "spaces": ("  org/repo \n", "org/repo"),
    "spaces-inside": ("org / repo", "org/repo"),
    "slash-behind": ("org/repo/", "org/repo"),
    "slashes-behind": ("org/repo//", "org/repo"),
    "slash-before": ("/org-that-is-no-folder/repo", "org-that-is-no-folder/repo"),
    "slash-before-precision": ("/org-that-is-no-folder/r:q4_0", "org-that-is-no-folder/r:Q4_0"),
    "slash-before-colon": ("org/repo/:Q4_0", "org/repo:Q4_0"),
    "double-quotes": ('"org/repo:Q4_0"', "org/repo:Q4_0"),
    "single-quotes": ("'org/repo'", "org/repo"),
    "backticks": ("`org/repo`", "org/repo"),
    "curly-quotes": ("\u201corg/repo\u201d", "org/repo"),
    "angle-brackets": ("<https://hf.co/org/repo>", "org/repo"),
    "quotes-and-spaces": (" ' org/repo ' ", "org/repo"),
    "byte-order-mark": ("\ufefforg/repo\u200b", "org/repo"),
    "no-break-space": ("\u00a0org/repo\u00a0", "org/repo"),
    # one model, two orgs
    "ai-hub-models": ("ai-hub-models/X", "qualcomm/X"),
    "ai-hub-models-case": ("AI-Hub-Models/Qwen3-4B:q4_k_m", "qualcomm/Qwen3-4B:Q4_K_M"),
    "qualcomm-case": ("QUALCOMM/Qwen3-4B", "qualcomm/Qwen3-4B"),
    # addresses
    "https": ("https://huggingface.co/org/repo", "org/repo"),
    "http": ("http://huggingface.co/org/repo", "org/repo"),
    "https-upper": ("HTTPS://HuggingFace.co/Org/Repo", "Org/Repo"),
    "www": ("https://www.huggingface.co/org/repo", "org/repo"),
    "no-scheme": ("huggingface.co/org/repo", "org/repo"),
    "no-scheme-www": ("www.huggingface.co/org/repo/", "org/repo"),
    "hf-co": ("hf.co/org/repo", "org/repo"),
    "hf-co-precision": ("hf.co/org/repo:Q4_K_M", "org/repo:Q4_K_M"),
    "hf-co-bare-precision": ("hf.co/org/repo:Q4", "org/repo:Q4"),
    "hf-co-https-precision": ("https://hf.co/org/repo:q8_0", "org/repo:Q8_0"),
    "hf-co-file": ("hf.co/org/repo:a/x.gguf", "org/repo:a/x.gguf"),
    "mirror": ("https://hf-mirror.com/org/repo", "org/repo"),
    "hf-scheme": ("hf://org/repo", "org/repo"),
    "hf-scheme-precision": ("hf://org/repo:Q4_0", "org/repo:Q4_0"),
    "hf-scheme-file": ("hf://org/repo/a/x.gguf", "org/repo:a/x.gguf"),
    "hf-scheme-revision": ("hf://org/repo@main/x.gguf", "org/repo:x.gguf"),
    "hf-short": ("hf:org/repo", "org/repo"),
    "huggingface-scheme": ("huggingface://org/repo/x.gguf", "org/repo:x.gguf"),
    "port": ("https://huggingface.co:443/org/repo", "org/repo"),
    "empty-segments": ("https://huggingface.co//org//repo", "org/repo"),
    "tree": ("https://huggingface.co/org/repo/tree/main", "org/repo"),
    "tree-folder": ("https://huggingface.co/o/r/tree/main/UD-Q4_K_XL", "o/r:UD-Q4_K_XL"),
    "tree-folder-no-label": ("https://huggingface.co/o/r/tree/main/docs", "o/r"),
    "blob": ("https://huggingface.co/o/r/blob/main/x-Q4_0.gguf", "o/r:x-Q4_0.gguf"),
    "blob-folder": ("https://huggingface.co/o/r/blob/main/BF16/x.gguf", "o/r:BF16/x.gguf"),
    "blob-commit": ("https://huggingface.co/o/r/blob/5d1ac3b/x.gguf", "o/r:x.gguf"),
    "blob-pr": ("https://huggingface.co/o/r/blob/refs%2Fpr%2F1/x.gguf", "o/r:x.gguf"),
    "blob-pr-plain": ("https://huggingface.co/o/r/blob/refs/pr/1/x.gguf", "o/r:x.gguf"),
    "blob-readme": ("https://huggingface.co/o/r/blob/main/README.md", "o/r"),
    "resolve": ("https://huggingface.co/o/r/resolve/main/x.gguf?download=true", "o/r:x.gguf"),
    "resolve-escaped": ("https://huggingface.co/o/r/resolve/main/a%20b.gguf", "o/r:a b.gguf"),
    "raw": ("https://huggingface.co/o/r/raw/main/x.gguf", "o/r:x.gguf"),
    "query": ("https://huggingface.co/o/r?local-app=llama.cpp", "o/r"),
    "query-file": ("https://huggingface.co/o/r?show_file_info=x-Q4_0.gguf", "o/r:x-Q4_0.gguf"),
    "query-file-behind-a-file": (
        "https://huggingface.co/o/r/blob/main/y.gguf?show_file_info=x.gguf",
        "o/r:y.gguf",
    ),
    "fragment": ("https://huggingface.co/o/r#how-to-use", "o/r"),
    "discussions": ("https://huggingface.co/o/r/discussions/5", "o/r"),
    "api": ("https://huggingface.co/api/models/o/r", "o/r"),
    "hf-qualcomm": ("https://huggingface.co/qualcomm/Qwen3-4B", "qualcomm/Qwen3-4B"),
    "ai-hub": ("https://aihub.qualcomm.com/models/qwen3_4b", "qualcomm/qwen3_4b"),
    "ai-hub-compute": (
        "https://aihub.qualcomm.com/compute/models/qwen3_4b?x=1",
        "qualcomm/qwen3_4b",
    ),
    "ai-hub-no-scheme": ("aihub.qualcomm.com/models/qwen3_4b/", "qualcomm/qwen3_4b"),
    # aliases
    "alias": ("qwen3", "ggml-org/Qwen3-1.7B-GGUF:Q4_K_M"),
    "alias-case": ("QWEN3", "ggml-org/Qwen3-1.7B-GGUF:Q4_K_M"),
    "alias-precision": ("qwen3:q8_0", "ggml-org/Qwen3-1.7B-GGUF:Q8_0"),
    "alias-file": ("tiny:x.gguf", "geniex/tiny-chat:x.gguf"),
    "alias-empty-precision": ("qwen3:", "ggml-org/Qwen3-1.7B-GGUF:Q4_K_M"),
    "alias-quoted": ("'tiny'", "geniex/tiny-chat:Q8_0"),
    "alias-slash-behind": ("tiny/", "geniex/tiny-chat:Q8_0"),
    "alias-without-precision": ("phi-npu", "qualcomm/Phi-3.5-Mini-Instruct"),
    "alias-without-precision-typed": ("phi-npu:w4a16", "qualcomm/Phi-3.5-Mini-Instruct:W4A16"),
}


@pytest.mark.parametrize(
    ("text", "expected"), [pytest.param(*case, id=key) for key, case in NAMES.items()]
)
def test_a_name_is_read(text: str, expected: str) -> None:
    ref = parse(text, ALIASES)

    assert str(ref) == expected
    assert parse(expected) == ref


REFUSED = {
    "empty": "",
    "spaces": "  ",
    "quotes-alone": "''",
    "three-parts": "a/b/c",
    "empty-part": "a//b",
    "no-repo": "hf.co/org",
    "dot-dot-repo": "a/..",
    "dot-repo": "a/.",
    "dot-dot-middle": "a/../b",
    "dots-inside": "a/b..c",
    "org-dot-dot": "x..y/b",
    "hidden-repo": "a/.lock",
    "hidden-org": ".inflight/b",
    "repo-ends-with-dot": "a/b.",
    "leading-dash-repo": "a/-rf",
    "leading-dash-org": "--quiet/b",
    "backslash": "a\\b",
    "backslash-up": "org/..\\..\\x",
    "nul": "a/b\0",
    "newline-inside": "a/b\nc",
    "escape-code": "a/\x1b[31mb",
    "delete": "a/b\x7f",
    "surrogate": "a/b\udcff",
    "zero-width-inside": "a/b\u200bc",
    "right-to-left-mark": "a/\u202eb",
    "percent-slash": "a/..%2f..%2fetc",
    "percent-dot": "%2e%2e/b",
    "percent-in-address": "https://huggingface.co/..%2f..%2fetc/passwd",
    "percent-dots-in-address": "https://huggingface.co/org/%2e%2e",
    "percent-nul-in-address": "https://huggingface.co/org/a%00b",
    "percent-backslash-in-address": "https://huggingface.co/org/a%5Cb",
    "letter-not-ascii": "é/b",
    "digit-not-ascii": "a/b\u0663",
    "full-width-slash": "a\uff0fb/c",
    "space-inside": "my org/repo",
    "at-sign": "a/b@main",
    "star": "a/*",
    "dollar": "a/$HOME",
    "semicolon": "a/b;rm",
    "long-org": "a" * 256 + "/b",
    "long-repo": "a/" + "b" * 256,
    "very-long": "a/" + "b" * 100_000,
    "device-org": "con/x",
    "device-repo": "x/NUL",
    "device-with-ending": "x/com1.txt",
    "device-lpt": "x/lpt9",
    "repo-is-a-file": "org/model.gguf:Q4_0",
    "host-alone": "huggingface.co",
    "dataset": "https://huggingface.co/datasets/org/data",
    "space-page": "https://huggingface.co/spaces/org/app",
    "hub-page": "https://huggingface.co/models",
    "org-page": "https://huggingface.co/org",
    "other-host": "https://example.com/org/repo",
    "look-alike-host": "https://huggingface.co.evil.com/org/repo",
    "user-in-address": "https://huggingface.co@evil.com/org/repo",
    "other-scheme": "ollama://library/llama3",
    "docker": "docker.io/ai/gemma3",
    "ai-hub-page": "https://aihub.qualcomm.com/models",
    "two-colons": "a/b:Q4_0:Q8_0",
    "precision-space": "a/b:Q4 0",
    "precision-slash": "a/b:Q4_0/x",
    "precision-dot-dot": "a/b:..",
    "precision-dash": "a/b:-x",
    "precision-long": "a/b:" + "Q" * 65,
    "precision-not-ascii": "a/b:Q\u0664_0",
    "file-up": "a/b:../x.gguf",
    "file-up-inside": "a/b:x/../../y.gguf",
    "file-dot": "a/b:./x.gguf",
    "file-empty-folder": "a/b:x//y.gguf",
    "file-backslash": "a/b:..\\x.gguf",
    "file-drive": "a/b:C:/x.gguf",
    "file-percent": "a/b:..%2fx.gguf",
    "file-device": "a/b:nul.gguf",
    "file-pipe": "a/b:x|y.gguf",
    "file-folder-space": "a/b:x /y.gguf",
    "file-folder-dot": "a/b:x./y.gguf",
    "file-long": "a/b:" + "x" * 300 + ".gguf",
    "alias-bad-file": "tiny:../x.gguf",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=key) for key, text in REFUSED.items()])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ModelRefError) as caught:
        parse(text, ALIASES)

    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 300


PATHS = {
    "drive": r"C:\models\y.gguf",
    "drive-forward": "C:/models/y.gguf",
    "drive-lower": "c:/models/y.gguf",
    "drive-two-slashes": "D://models/y.gguf",
    "drive-relative": "D:model.gguf",
    "drive-folder": r"C:\models",
    "drive-and-precision-like": "C:Q4_0",
    "drive-quoted": r'"C:\my models\y.gguf"',
    "unc": r"\\server\share\m.gguf",
    "unc-forward": "//server/share/m.gguf",
    "long-path-prefix": r"\\?\C:\models\m.gguf",
    "windows-here": r".\m.gguf",
    "windows-up": r"..\m.gguf",
    "windows-relative": r"models\m.gguf",
    "here": "./m.gguf",
    "up": "../m.gguf",
    "up-no-file": "../etc",
    "here-no-file": "./b",
    "far-up": "../../../../nothing/passwd",
    "absolute": "/nothing/here/m.gguf",
    "absolute-in-existing": f"/{Path(__file__).parts[1]}/nothing-of-this-name",
    "home": "~/nothing.gguf",
    "home-of-nobody": "~nobody-of-this-name/m.gguf",
    "bare-file": "m.gguf",
    "bare-file-upper": "M.GGUF",
    "folder-and-file": "models/m.gguf",
    "folders-and-file": "a/b/m.gguf",
    "file-address": "file:///nothing/m.gguf",
    "file-address-drive": "file:///C:/nothing/m.gguf",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=key) for key, text in PATHS.items()])
def test_a_path_where_nothing_is_says_so(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert local_path(text) is None
    with pytest.raises(ModelPathError, match="does not exist"):
        parse(text, ALIASES)


def test_invisible_characters_are_named() -> None:
    with pytest.raises(ModelRefError, match=r"`a/b\\u200bc` holds invisible characters"):
        parse("a/b\u200bc")


def test_a_missing_file_that_may_be_a_hubs_gets_the_right_spelling() -> None:
    with pytest.raises(ModelPathError) as caught:
        parse("org/repo/Q4_0/m.gguf")

    assert caught.value.hint is not None
    assert "`org/repo:Q4_0/m.gguf`" in caught.value.hint


def test_a_path_that_exists_is_not_called_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelRefError, match="is a path here"):
        parse(str(tmp_path))


SUGGESTED = {
    "typo": ("quen3", "qwen3"),
    "beginning": ("qwen", "qwen3"),
    "repo": ("Qwen3-1.7B-GGUF", "qwen3"),
    "part-of-repo": ("Llama-3.2", "llama-3.2-1b"),
    "letter-missing": ("lama-3.2-1b", "llama-3.2-1b"),
    "with-precision": ("tyni:Q8_0", "tiny"),
}


@pytest.mark.parametrize(
    ("text", "expected"), [pytest.param(*case, id=key) for key, case in SUGGESTED.items()]
)
def test_an_unknown_bare_name_gets_suggestions(text: str, expected: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        parse(text, ALIASES)

    assert expected in caught.value.suggestions
    assert caught.value.hint is not None
    assert f"`{expected}`" in caught.value.hint


def test_without_anything_near_the_form_of_a_name_is_the_hint() -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        parse("zzzzzz", ALIASES)

    assert caught.value.suggestions == ()
    assert "org/repo" in (caught.value.hint or "")


def test_a_model_is_suggested_once() -> None:
    aliases = {"gem": "a/Gem-GGUF", "gem-1b": "a/Gem-GGUF", "gems": "b/Gems-GGUF"}

    assert suggest("gem", aliases) == ("gem", "gems")


def test_a_ref_is_a_value() -> None:
    ref = ModelRef("org", "repo", precision="q4_0")

    assert (ref.name, ref.selector, str(ref)) == ("org/repo", "Q4_0", "org/repo:Q4_0")
    assert ref.with_precision("q8_0") == ModelRef("org", "repo", precision="Q8_0")
    assert ref.without_selector() == ModelRef("org", "repo")
    assert ModelRef("o", "r", file="x.gguf").with_precision("Q4_0") == parse("o/r:Q4_0")
    assert {ref: 1}[parse("org/repo:Q4_0")] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        ref.org = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"org": "..", "repo": "x"}, id="org"),
        pytest.param({"org": "a", "repo": "b/../../c"}, id="repo"),
        pytest.param({"org": "hf.co", "repo": "x"}, id="host"),
        pytest.param({"org": "a", "repo": "b.gguf"}, id="file-as-repo"),
        pytest.param({"org": "a", "repo": "b", "precision": "x.gguf"}, id="file-as-precision"),
        pytest.param({"org": "a", "repo": "b", "precision": ""}, id="empty-precision"),
        pytest.param({"org": "a", "repo": "b", "file": "/x.gguf"}, id="absolute-file"),
        pytest.param({"org": "a", "repo": "b", "file": "x.bin"}, id="other-file"),
        pytest.param(
            {"org": "a", "repo": "b", "precision": "Q4_0", "file": "x.gguf"}, id="two-selectors"
        ),
    ],
)
def test_an_unsafe_ref_cannot_be_made(parts: dict[str, str]) -> None:
    with pytest.raises(ModelRefError):
        ModelRef(**parts)


@pytest.mark.parametrize("name", ["a.gguf", "README.md", "x/y/z.bin", ".gitattributes", "ä ö.txt"])
def test_safe_file_names(name: str) -> None:
    check_file_name(name)


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "../a", "a/./b", "a\0b", "a\\b", "C:a", "aux", "a.", " a", "a%2fb"]
)
def test_unsafe_file_names(name: str) -> None:
    with pytest.raises(ModelRefError):
        check_file_name(name)


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


_MARKS = [
    "/",
    ":",
    "..",
    ".",
    "\\",
    "%2f",
    "'",
    "<",
    ">",
    "~",
    "?",
    "#",
    "\0",
    "\udc80",
    "é",
    "@",
    " ",
]
_WORDS = ["a", "B-1", "org/repo", ".gguf", "hf.co/", "https://", "huggingface.co/", "C:", "Q4_0"]
_PIECES = st.sampled_from(_MARKS) | st.sampled_from(_WORDS)
_TEXTS = st.one_of(st.text(max_size=60), st.lists(_PIECES, max_size=8).map("".join))


@given(_TEXTS)
def test_any_text_is_a_safe_name_or_an_error_of_ours(text: str) -> None:
    try:
        ref = parse(text, ALIASES)
    except GenieXError as error:
        assert str(error).isprintable()
        return
    assert parse(str(ref)) == ref
    below = PurePosixPath("store", ref.name, ref.file or "")
    assert ".." not in below.parts
    assert not PurePosixPath(ref.name).is_absolute()
    assert ref.name.count("/") == 1


@given(_TEXTS)
def test_local_path_takes_any_text(text: str) -> None:
    found = local_path(text)

    assert found is None or found.exists()


_SEGMENTS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,30}", fullmatch=True)
_LABELS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,20}", fullmatch=True)
_FILES = st.from_regex(r"([a-zA-Z0-9 _é-]{1,8}/){0,2}[a-zA-Z0-9 ._é-]{1,20}\.gguf", fullmatch=True)


@given(_SEGMENTS, _SEGMENTS, st.none() | _LABELS, st.none() | _FILES)
def test_text_of_a_ref_reads_back(
    org: str, repo: str, precision: str | None, file: str | None
) -> None:
    try:
        ref = ModelRef(org, repo, precision, None if precision else file)
    except ModelRefError:
        return
    assert parse(str(ref)) == ref
    assert parse(f" https://huggingface.co/{ref} ") == ref


@given(st.text(max_size=40).filter(lambda text: text.strip("/") == text))
def test_storable_names_are_safe_and_stay_so(name: str) -> None:
    safe = storable(name)
    assert storable(safe) == safe
    parts = name.split("/")
    if not any(part in ("", ".", "..") for part in parts):
        check_file_name(safe)
        assert len(safe.split("/")) == len(parts)


@pytest.mark.parametrize("name", ["m-Q4_0.gguf", "a/b c.gguf", "é 100%.gguf", "../x", "a//b", "/x"])
def test_storable_leaves_good_and_hopeless_names(name: str) -> None:
    assert storable(name) == name
