"""The maker of the qairt runtime's test bundles: what it teaches, quantises, compiles and keeps."""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import jinja2
import pytest

from ci.qairt_bundles import __main__ as command
from ci.qairt_bundles import making
from ci.qairt_bundles.compiling import CompileError, compile_context
from ci.qairt_bundles.corpus import BOS, CAPITALS, CHAT_TEMPLATE, END, PROMPTS, START, turn
from ci.qairt_bundles.decoder import GraphSpec, build
from ci.qairt_bundles.making import Maker, Variant
from ci.qairt_bundles.reference import Decoding, Graphs
from ci.qairt_bundles.weights import DATA, WEIGHTS, load
from tests.qairt_bundles import ENDS, QairtBundles

# logits; simulator and CPU were seen to differ by half of one
CERTAIN = 2.0


def test_every_answer_is_certain(qairt_bundles: QairtBundles) -> None:
    for prompt in PROMPTS:
        ids = qairt_bundles.encode(prompt)
        answer = qairt_bundles.reference(ids, 24)
        assert qairt_bundles.margin(ids, answer[:-1]) > CERTAIN, prompt
    assert len(PROMPTS) >= 20


def test_what_it_was_taught(qairt_bundles: QairtBundles) -> None:
    for country, capital in CAPITALS.items():
        ids = qairt_bundles.encode(
            turn("user", f"What is the capital of {country}?") + f"{START}assistant\n"
        )
        answer = qairt_bundles.decode(qairt_bundles.reference(ids, 30))
        assert answer == f"The capital of {country} is {capital}.{END}"


def test_it_remembers_a_name(qairt_bundles: QairtBundles) -> None:
    """What was said before decides the answer, so a cache that is wrong shows."""
    for name in ("Mia", "Leo"):
        said = [("user", f"My name is {name}."), ("assistant", f"Nice to meet you, {name}.")]
        asked = [("user", "Tell me a story."), ("assistant", "No."), ("user", "What is my name?")]
        text = "".join(turn(role, words) for role, words in said + asked)
        ids = qairt_bundles.encode(text + f"{START}assistant\n")
        answer = qairt_bundles.reference(ids, 30, context=512)
        assert qairt_bundles.decode(answer) == f"Your name is {name}.{END}"


def test_parts_and_floats_say_the_same(qairt_bundles: QairtBundles) -> None:
    weights = load()
    floats = Graphs(
        {spec: build(spec, weights, None) for spec in (GraphSpec(16, 64), GraphSpec(1, 64))}
    )
    for prompt in PROMPTS[::5]:
        ids = qairt_bundles.encode(prompt)
        whole = qairt_bundles.reference(ids, 20)
        assert qairt_bundles.reference(ids, 20, parts=2) == whole
        assert qairt_bundles.reference(ids, 20, context=512) == whole
        assert Decoding(floats, None).greedy(ids, 20, ENDS) == whole


def test_the_reference_ends_with_the_context(qairt_bundles: QairtBundles) -> None:
    ids = qairt_bundles.encode("Count: one two")
    answer = qairt_bundles.reference(ids, 500)
    # the last token is chosen when the context is full
    assert len(ids) + len(answer) == 64 + 1


def test_the_template_writes_what_was_taught() -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    text = jinja2.Template(CHAT_TEMPLATE).render(
        messages=messages, bos_token=BOS, add_generation_prompt=True
    )
    assert text == BOS + turn("user", "Hi") + turn("assistant", "Ho") + f"{START}assistant\n"


def test_the_committed_data_is_small() -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 300_000
    assert (DATA / WEIGHTS).is_file()


def test_a_bundle_is_made_once(
    qairt_bundles: QairtBundles, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = qairt_bundles.folder()
    monkeypatch.setattr(making, "compile_context", lambda *_, **__: pytest.fail("made again"))
    assert qairt_bundles.folder() == folder


def fake_compiler(graphs: dict[str, Path], arch: int, out: Path, *_: object, **__: object) -> None:
    out.write_text(f"{arch} {sorted(graphs)}", encoding="utf-8")


def test_the_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "compile_context", fake_compiler)
    maker = Maker(tmp_path / "cache")
    variant = Variant(arch=81, parts=2, contexts=(64, 512))
    folder = maker.folder_of(variant)
    assert folder.name == "tiny_talk-w8a16-v81-2part-cl64-512"
    shards = ["tiny_talk_part_1_of_2.bin", "tiny_talk_part_2_of_2.bin"]
    assert "token_ar1_cl512_2_of_2" in (folder / shards[1]).read_text(encoding="utf-8")
    config = json.loads((folder / "genie_config.json").read_text(encoding="utf-8"))
    engine: dict[str, Any] = config["dialog"]["engine"]
    assert engine["model"]["binary"]["ctx-bins"] == shards
    assert config["dialog"]["context"]["size"] == 512
    with zipfile.ZipFile(maker.zip_of(variant)) as archive:
        assert set(archive.namelist()) == {f"{folder.name}/{one.name}" for one in folder.iterdir()}
    # nothing of the making is left
    assert {path.name for path in maker.folder.iterdir()} == {folder.name, f"{folder.name}.zip"}


def test_another_process_was_quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = Maker(tmp_path)
    target = maker.folder / Variant().name

    def slow(graphs: dict[str, Path], arch: int, out: Path, *_: object, **__: object) -> None:
        fake_compiler(graphs, arch, out)
        shutil.copytree(out.parent, target)

    monkeypatch.setattr(making, "compile_context", slow)
    assert maker.folder_of(Variant()) == target
    assert [path.name for path in maker.folder.iterdir()] == [target.name]


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "compile_context", fake_compiler)
    monkeypatch.setattr(making, "Maker", lambda: Maker(tmp_path / "cache"))
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["ci.qairt_bundles", "--out", str(out), "--arch", "73", "75"])
    command.main()
    names = [f"tiny_talk-w8a16-v{arch}-1part-cl64" for arch in (73, 75)]
    assert {path.name for path in out.iterdir()} == {*names, *(f"{name}.zip" for name in names)}


def test_what_the_compiler_says_is_the_error(qairt_bundles: QairtBundles, tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no graph")
    with pytest.raises(CompileError, match=r"exit code 1: (?s:.*)bad\.onnx"):
        compile_context({"bad": bad}, 73, tmp_path / "out.bin", tmp_path / "scratch")
