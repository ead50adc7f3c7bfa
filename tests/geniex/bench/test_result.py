"""A result as JSON and back, as tables and pictures, and which settings it calls the best."""

import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from geniex.bench.choice import choose, choose_model
from geniex.bench.plan import Shape
from geniex.bench.plot import check_plot, draw
from geniex.bench.result import BenchResult, read_result
from geniex.bench.table import as_csv, loads, short_names, speeds
from geniex_catalogue.errors import UsageError
from tests.geniex.bench.results import FIRST, case, result, row

DEEP = Shape(128, depth=512, parallel=2)
PLAIN = [10.0, 11, 12, 13, 14]
DRAFTED = [15.0, 16.5, 18, 19.5, 21]


@pytest.fixture
def found() -> BenchResult:
    """Plain decoding and one that is 1.5 times as fast, each with two requests."""
    return result(
        case("plain", row(decode=PLAIN, prefill=PLAIN, ttft=[0.1] * 5), row(DEEP, decode=PLAIN)),
        case("draft-mtp 2", row(decode=DRAFTED, accepted=[0.5] * 5), row(DEEP, decode=DRAFTED)),
    )


def write(path: Path, data: Any) -> Path:
    """A file of JSON."""
    path.write_text(json.dumps(data))
    return path


class TestFile:
    def test_round_trip(self, found: BenchResult, tmp_path: Path) -> None:
        assert read_result(write(tmp_path / "a.json", found.as_dict())) == found

    def test_an_interrupted_one_stays_incomplete(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a.json", result(complete=False).as_dict())
        assert not read_result(path).complete

    def test_medians_and_ratios_are_in_it(self, found: BenchResult) -> None:
        [_, drafted] = found.as_dict()["cases"]
        assert drafted["rows"][0]["decode_speed"]["median"] == 18
        assert drafted["rows"][0]["ratio"]["decode_speed"]["median"] == 1.5

    @pytest.mark.parametrize(
        "data",
        [
            pytest.param([], id="a list"),
            pytest.param({}, id="no bench"),
            pytest.param({"geniex_bench": 99}, id="another format"),
            pytest.param({"geniex_bench": 1, "cases": 3}, id="half"),
            pytest.param({**result().as_dict(), "cases": [{"model": "m"}]}, id="a case of nothing"),
            pytest.param({**result().as_dict(), "repeat": "many"}, id="a word for a number"),
        ],
    )
    def test_what_is_no_result(self, data: Any, tmp_path: Path) -> None:
        with pytest.raises(UsageError):
            read_result(write(tmp_path / "a.json", data))

    def test_no_file_and_no_json(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="cannot read"):
            read_result(tmp_path / "none.json")
        (tmp_path / "a.json").write_text("model,settings")
        with pytest.raises(UsageError, match="no JSON"):
            read_result(tmp_path / "a.json")


class TestTables:
    def test_speeds(self, found: BenchResult) -> None:
        head, first, *_, last = speeds(found)
        assert head[2:5] == ("prompt", "depth", "parallel")
        assert dict(zip(head, first, strict=True)) == {
            **{"model": "org/m:Q4_0", "settings": "plain", "prompt": "128", "depth": "0"},
            **{"parallel": "1", "prefill tok/s": "12.0 (11.0-13.0)", "to first": ""},
            **{"decode tok/s": "12.0 (11.0-13.0)", "accepted": "", "total tok/s": "-"},
            "ttft ms": "100 (100-100)",
        }
        assert last[3:5] == ("512", "2") and "1.50x (1.50-1.50)" in last

    def test_columns_that_say_nothing_are_left_out(self) -> None:
        head, _ = speeds(result(case("plain", row(decode=[1.0]))))
        assert not {"depth", "parallel", "to first", "accepted", "total tok/s"} & set(head)

    def test_what_could_not_be_measured_is_a_dash(self) -> None:
        head, only = speeds(result(case("plain", row(decode=[0.0, 0.0]))))
        assert only[head.index("decode tok/s")] == "-"

    @pytest.mark.parametrize(
        ("models", "expected"),
        [
            pytest.param(["org/m:Q4_0"], ["org/m:Q4_0"], id="a name"),
            pytest.param(["/a/b/m.gguf", "/a/n.gguf"], ["m.gguf", "n.gguf"], id="paths"),
            pytest.param(["/a/b/m.gguf", "/a/m.gguf"], ["/a/b/m.gguf", "/a/m.gguf"], id="alike"),
            pytest.param(["./m.gguf"], ["./m.gguf"], id="short"),
        ],
    )
    def test_long_paths_are_cut(self, models: list[str], expected: list[str]) -> None:
        assert list(short_names(models).values()) == expected

    def test_loads(self, found: BenchResult) -> None:
        assert loads(found)[1][2:] == ("0.60 (0.55-0.65)", "3.00", "1024", "llama_cpp, cpu")

    def test_csv(self, found: BenchResult) -> None:
        lines = list(csv.DictReader(as_csv(found).splitlines()))
        assert len(lines) == 4
        assert (lines[2]["settings"], lines[2]["decode_speed"]) == ("draft-mtp 2", "18")
        assert (lines[2]["decode_ratio"], lines[0]["decode_ratio"]) == ("1.5", "")


class TestPlot:
    def test_svg(self, found: BenchResult, tmp_path: Path) -> None:
        draw(found, tmp_path / "a.svg")
        assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")

    def test_png(self, tmp_path: Path) -> None:
        draw(result(complete=False), tmp_path / "a.png")
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")

    @pytest.mark.parametrize("name", ["a.pdf", "a", "nowhere/a.png"])
    def test_refused_before_anything_is_measured(self, name: str, tmp_path: Path) -> None:
        with pytest.raises(UsageError):
            check_plot(tmp_path / name)

    def test_without_the_library_the_extra_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(UsageError, match="bench-plot") as caught:
            check_plot(tmp_path / "a.png")
        assert 'pip install "matplotlib>=' in str(caught.value.hint)


class TestChoice:
    def test_the_fastest(self, found: BenchResult) -> None:
        choice = choose(found, "org/m:Q4_0")
        assert choice is not None and choice.gain is not None
        assert (choice.case.label, choice.gain.median) == ("draft-mtp 2", 1.5)

    @pytest.mark.parametrize(
        "values",
        [
            pytest.param([9.0, 10, 11, 12, 13], id="slower"),
            pytest.param([11.0, 12, 13, 14, 13], id="noise"),
            pytest.param([99.0, 99, 99], id="too few rounds"),
            pytest.param([], id="none"),
        ],
    )
    def test_else_the_first(self, values: list[float]) -> None:
        made = result(case("plain", row(decode=PLAIN)), case("other", row(decode=values)))
        choice = choose(made, "org/m:Q4_0")
        assert choice is not None and (choice.case.label, choice.gain) == ("plain", None)

    def test_of_the_faster_ones_the_fastest(self) -> None:
        shapes = (row(decode=PLAIN), row(DEEP, decode=PLAIN))
        cases = [
            case(str(n), *(row(shape, decode=[n * x for x in PLAIN]) for shape in (FIRST, DEEP)))
            for n in (2, 4, 3)
        ]
        choice = choose(result(case("plain", *shapes), *cases), "org/m:Q4_0")
        assert choice is not None and choice.case.label == "4"

    def test_the_luckiest_of_many_is_not_chosen(self) -> None:
        lucky = [case(str(n), row(decode=[n * x for x in PLAIN])) for n in (2, 4, 3)]
        choice = choose(result(case("plain", row(decode=PLAIN)), *lucky), "org/m:Q4_0")
        assert choice is not None and choice.case.label == "plain"
        assert choice.lacking == 6, "and five rounds can tell nothing of three others"

    def test_of_what_was_not_measured_none(self) -> None:
        assert choose(result(case("plain")), "org/m:Q4_0") is None
        assert choose(result(), "org/other") is None


class TestChoiceOfModels:
    def test_each_as_it_is_fastest(self, found: BenchResult) -> None:
        other = case("plain", row(decode=[2 * x for x in PLAIN]), model="org/m:Q8_0")
        found.cases.append(other)
        choice = choose_model(found)
        assert choice is not None and choice.gain is not None
        # twice the plain one is a third more than the drafted one
        assert (choice.case, round(choice.gain.median, 2)) == (other, 1.33)

    def test_within_noise_the_first(self) -> None:
        cases = [case("plain", row(decode=PLAIN), model=f"org/m:Q{n}_0") for n in (4, 8)]
        choice = choose_model(result(*cases))
        assert choice is not None and (choice.case, choice.gain) == (cases[0], None)

    def test_of_one_model_there_is_none(self, found: BenchResult) -> None:
        assert choose_model(found) is None
