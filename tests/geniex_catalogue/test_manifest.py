"""geniex.json: theirs is read, ours is understood by them, damage is an error with a reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geniex_catalogue.errors import ManifestError
from geniex_catalogue.manifest import FileRecord, Manifest, check_file_name, parse, read

# as a GenieX cache has it
THEIRS: dict[str, Any] = {
    "Name": "ggml-org/Qwen3-1.7B-GGUF",
    "ModelName": "Qwen3-1.7B",
    "ModelType": "llm",
    "PluginId": "llama_cpp",
    "DeviceId": "",
    "MinSDKVersion": None,
    "ModelFile": {
        "Q4_K_M": {"Name": "Qwen3-1.7B-Q4_K_M.gguf", "Downloaded": True, "Size": 1282439584},
        "Q8_0": {"Name": "Qwen3-1.7B-Q8_0.gguf", "Downloaded": False, "Size": 1834426016},
    },
    "MMProjFile": {"Name": "", "Downloaded": False, "Size": 0},
    "TokenizerFile": None,
    "ExtraFiles": None,
}


def read_text(document: object) -> Manifest:
    return parse(json.dumps(document).encode())


def test_theirs_is_read() -> None:
    manifest = read_text(THEIRS)
    assert (manifest.name, manifest.format) == ("ggml-org/Qwen3-1.7B-GGUF", "gguf")
    assert manifest.models["Q4_K_M"].size == 1282439584
    assert [record.downloaded for record in manifest.models.values()] == [True, False]
    assert (manifest.projector, manifest.tokenizer, manifest.extras) == (None, None, ())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ExtraFiles", [None]),
        ("ExtraFiles", [None, {"Name": None, "Downloaded": None, "Size": None}]),
        ("ModelFile", {**THEIRS["ModelFile"], "Q4_0": None}),
        ("MMProjFile", {"Name": None}),
        *((key, None) for key in THEIRS if key != "ModelFile"),
    ],
)
def test_nulls_count_as_absent(key: str, value: object) -> None:
    manifest = read_text({**THEIRS, key: value})
    assert list(manifest.models) == ["Q4_K_M", "Q8_0"]
    assert (manifest.projector, manifest.tokenizer, manifest.extras) == (None, None, ())


def test_a_bundle_without_label_gets_its_precision() -> None:
    old = {
        "Name": "qualcomm/x",
        "PluginId": "qairt",
        "Precision": "w4a16",
        "ModelFile": {"N/A": {"Name": "a.bin", "Downloaded": True, "Size": 1}},
    }
    assert list(read_text(old).models) == ["w4a16"]
    assert list(read_text({**old, "Precision": None}).models) == ["N/A"]
    assert "Precision" not in json.loads(read_text(old).to_json())


def test_ours_has_their_layout() -> None:
    ours = Manifest(
        "org/repo-GGUF",
        "gguf",
        {"Q4_0": FileRecord("q/a.gguf", 5, sha256="ab", revision="r", source="huggingface")},
        (FileRecord("q/b.gguf", 6, precision="Q4_0"),),
    )
    document = json.loads(ours.to_json())
    assert document["ModelName"] == "repo"
    assert document["PluginId"] == "llama_cpp"
    assert document["ModelFile"]["Q4_0"] == {
        "Name": "q/a.gguf",
        "Downloaded": True,
        "Size": 5,
        "Sha256": "ab",
        "Revision": "r",
        "Source": "huggingface",
    }
    assert document["MMProjFile"] == {"Name": "", "Downloaded": False, "Size": 0}
    assert document["ExtraFiles"][0]["Precision"] == "Q4_0"


def test_unknown_keys_survive() -> None:
    theirs = {**THEIRS, "Future": {"a": [1]}}
    theirs["ModelFile"] = {"Q4_0": {"Name": "a.gguf", "Downloaded": True, "Size": 1, "New": 2}}
    document = json.loads(read_text(theirs).to_json())
    assert document["Future"] == {"a": [1]}
    assert document["ModelFile"]["Q4_0"]["New"] == 2


NAMES = st.text("abcXYZ019-_. é", min_size=1, max_size=12).filter(
    lambda name: name.strip(".") == name and name.lower() not in ("geniex.json",)
)
RECORDS = st.builds(
    FileRecord,
    NAMES,
    st.integers(0, 2**40),
    st.booleans(),
    st.none() | st.just("ab" * 32),
    st.none() | st.just("main"),
    st.none() | st.just("localfs"),
    st.none() | st.just("Q4_0"),
    st.none() | st.just(Path(Path.cwd().anchor, "models", "a.gguf")),
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["Q4_0", "Q8_0", "N/A"]), RECORDS),
    st.lists(RECORDS, max_size=4).map(tuple),
    st.none() | RECORDS,
)
def test_round_trip(
    models: dict[str, FileRecord], extras: tuple[FileRecord, ...], projector: FileRecord | None
) -> None:
    manifest = Manifest("org/repo", "gguf", models, extras, projector, model_name="repo")
    assert parse(manifest.to_json().encode()) == manifest


BAD_NAMES = [
    "con.gguf",
    "sub/NUL",
    "",
    ".",
    "..",
    "../x",
    "a/../b",
    "/etc/passwd",
    "a//b",
    "a/",
    "./a",
    "C:x",
    "C:\\x",
    "a\\b",
    "a\0b",
    "a\nb",
    "\\\\host\\x",
    "geniex.json",
    "GENIEX.JSON",
    ".lock",
    ".inflight/x",
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
def test_names_that_lead_out_are_refused(name: str) -> None:
    with pytest.raises(ManifestError):
        check_file_name(name)
    if name:
        with pytest.raises(ManifestError):
            read_text({**THEIRS, "ExtraFiles": [{"Name": name, "Downloaded": True, "Size": 1}]})


DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "cut": (b'{"Name": "a/b", "Mod', "not JSON"),
    "a list": (b"[]", "not a JSON object"),
    "binary": (bytes(range(256)), "not JSON"),
    "deep": (b"[" * 100_000, "not JSON"),
    "half a surrogate pair": (b'{"Name": "\\ud800"}', "not JSON"),
    "name is a number": (b'{"Name": 3}', "not text"),
    "models are a list": (b'{"ModelFile": [1]}', "not a JSON object"),
    "model is text": (b'{"ModelFile": {"Q4_0": "a.gguf"}}', "not a JSON object"),
    "model without name": (b'{"ModelFile": {"Q4_0": {"Size": 1}}}', "no Name"),
    "negative size": (b'{"ModelFile": {"Q4_0": {"Name": "a", "Size": -1}}}', "not a size"),
    "absurd size": (b'{"ModelFile": {"Q4_0": {"Name": "a", "Size": 1e400}}}', "not a size"),
    "size is text": (b'{"ModelFile": {"Q4_0": {"Name": "a", "Size": "1"}}}', "not a size"),
    "extras are a table": (b'{"ExtraFiles": {"a": 1}}', "not a list"),
    "unknown plugin": (b'{"PluginId": "cuda"}', "`cuda`"),
    "relative place": (
        b'{"ModelFile": {"Q4_0": {"Name": "a", "Path": "b/c"}}}',
        "not absolute",
    ),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_damage_is_told(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "geniex.json"
    path.write_bytes(data)
    with pytest.raises(ManifestError) as caught:
        read(path)
    assert reason in caught.value.message
    assert str(path) in caught.value.message


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "geniex.json"
    path.write_bytes(b" " * ((1 << 20) + 1))
    with pytest.raises(ManifestError, match="larger than 1 MiB"):
        read(path)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["Name", "Size", "Path", "ModelFile", "ExtraFiles", "PluginId", "x"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_a_manifest_or_an_error(document: object) -> None:
    try:
        parse(read_text(document).to_json().encode())
    except ManifestError as exc:
        assert exc.message
