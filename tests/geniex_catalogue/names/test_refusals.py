"""Texts that are no name, and paths where nothing is."""

from pathlib import Path

import pytest

from geniex_catalogue.errors import ModelPathError, ModelRefError
from geniex_catalogue.names import local_path, parse
from tests.geniex_catalogue.names.typed import ALIASES

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
    "docker-one-part": "docker.io/gemma3",
    "docker-three-parts": "docker.io/ai/x/gemma3",
    "docker-digest": "docker.io/ai/gemma3@sha256:0123",
    "docker-tag-slash": "docker.io/ai/gemma3:a/b",
    "docker-tag-odd": "docker.io/ai/gemma3:_a",
    "docker-leads-out": "docker.io/../gemma3",
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
