"""What a context binary holds, by QNN itself; a crash of it is an error and nothing more."""

import sys
from pathlib import Path

import pytest

from geniex_catalogue.errors import BundleError, LoadError
from geniex_runtimes.qairt import inspection
from geniex_runtimes.qairt.device import installed_libraries
from geniex_runtimes.qairt.inspection import TensorFacts, inspect
from tests.qairt_bundles import QairtBundles


@pytest.fixture(scope="module")
def libraries(qairt_bundles: QairtBundles) -> Path:
    return installed_libraries()[0]


def test_graphs_and_tensors(qairt_bundles: QairtBundles, libraries: Path) -> None:
    paths = sorted(qairt_bundles.folder(parts=2).glob("*.bin"))
    first, last = inspect(paths, libraries)
    assert first is not None and last is not None
    assert (first.path, first.build, first.soc_model, first.htp_arch) == (
        paths[0],
        "2.51.0",
        60,
        73,
    )
    assert {graph.name for graph in first.graphs} == {
        "prompt_ar16_cl64_1_of_2",
        "token_ar1_cl64_1_of_2",
    }
    prompt = next(graph for graph in first.graphs if graph.name.startswith("prompt"))
    inputs = {one.name: one for one in prompt.inputs}
    assert inputs["input_ids"] == TensorFacts("input_ids", (1, 16), "int32", None, None)
    mask = inputs["attention_mask"]
    assert (mask.shape, mask.dtype, mask.offset) == ((1, 1, 16, 64), "uint16", -65535)
    assert mask.scale == pytest.approx(50 / 65535)
    assert inputs["past_key_0_in"].shape == (2, 1, 16, 48)
    assert (inputs["past_key_0_in"].dtype, inputs["past_key_0_in"].offset) == ("uint8", -128)
    assert "hidden_0" in {one.name for one in prompt.outputs}
    token = next(graph for graph in last.graphs if graph.name.startswith("token"))
    assert {one.name: one.shape for one in token.outputs}["logits"] == (1, 1, 512)


def test_one_of_several_is_named(
    qairt_bundles: QairtBundles, libraries: Path, tmp_path: Path
) -> None:
    (good,) = qairt_bundles.folder().glob("*.bin")
    bad = tmp_path / "bad.bin"
    bad.write_bytes(bytes(5000))
    with pytest.raises(BundleError, match=r"bad\.bin` is no context binary that can be read: QNN"):
        inspect([good, bad], libraries)


FAKES = {
    "dies at the second": (
        'print(\'{"unknown": "new"}\', flush=True); os.kill(os.getpid(), 11)',
        BundleError,
        r"second\.bin` makes `libQnnSystem\.so` crash \(exit code -11\)",
    ),
    "dies at once": ("os.kill(os.getpid(), 6)", BundleError, r"first\.bin` makes .* crash"),
    "does not start": (
        "sys.exit('no such thing')",
        LoadError,
        "`libQnnSystem.so` cannot be asked: no such thing",
    ),
    "never ends": ("time.sleep(600)", LoadError, "did not answer within 1 s"),
}


@pytest.mark.skipif(sys.platform == "win32", reason="exit codes of signals")
@pytest.mark.parametrize(("script", "kind", "reason"), FAKES.values(), ids=FAKES)
def test_what_can_become_of_the_child(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    kind: type[LoadError],
    reason: str,
) -> None:
    (tmp_path / "fake_child.py").write_text(f"import os, sys, time\n{script}\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(inspection, "_MODULE", "fake_child")
    monkeypatch.setattr(inspection, "_TIMEOUT", 1.0 if "sleep" in script else 60.0)
    with pytest.raises(kind, match=reason) as caught:
        inspect([tmp_path / "first.bin", tmp_path / "second.bin"], tmp_path)
    assert type(caught.value) is kind
