"""A bundle at the terminal: out of its zip, and an answer."""

from pathlib import Path
from typing import TYPE_CHECKING

from geniex_runtimes.options import SIMULATOR
from tests.cliharness import Cli
from tests.geniex.qairt.faults import FAULTS
from tests.geniex.qairt.test_served import FRANCE, PARIS

if TYPE_CHECKING:
    from tests.qairt_bundles import QairtBundles


def test_a_zip_is_pulled_and_answers(
    cli: Cli, data_dir: Path, qairt_bundles: "QairtBundles"
) -> None:
    file = qairt_bundles.zip(context=512)
    assert cli("pull", "local/tiny", "--local-path", str(file)).code == 0
    ignored = ("--compute", "gpu", "--nctx", "4096", "--spec-type", "auto")
    result = cli("infer", "local/tiny", "-p", FRANCE, "--temperature", "0", *ignored)
    assert (result.code, result.out) == (0, f"{PARIS}\n")
    assert result.err.count("Warning: ") == 3
    assert f"device:         {SIMULATOR}" in result.err and "stop reason:    eos" in result.err
    refused = cli("infer", "local/tiny", "-p", FRANCE, "--require", "npu")
    assert refused.code == 1 and "the HTP simulator is not an NPU" in refused.err


def test_the_other_engine_says_the_same(cli: Cli, data_dir: Path, bundle: Path) -> None:
    how = ("-p", FRANCE, "--temperature", "0", "--qairt-engine", "ort")
    assert cli("infer", str(bundle), *how).out == f"{PARIS}\n"


def test_a_sliding_window_goes_on_past_the_context(
    cli: Cli, data_dir: Path, qairt_bundles: "QairtBundles"
) -> None:
    short = str(qairt_bundles.folder())
    how = ("-p", "Count.", "--temperature", "0", "--max-tokens", "70", "--sliding-window")
    result = cli("infer", short, *how)
    # in a cache that forgot the order of what it holds, counting goes astray
    assert result.out.endswith("one two three four five six seven eight\n")
    assert "70 token(s)" in result.err
    assert result.err.count("Warning: libGenie has no sliding window") == 1


def test_the_simulator_has_its_name(
    cli: Cli, data_dir: Path, bundle: Path, qairt_bundles: "QairtBundles", tmp_path: Path
) -> None:
    [device] = [
        one for one in cli("devices", "--json").json["devices"] if one["runtime"] == "qairt"
    ]
    assert device["name"] == SIMULATOR
    told = cli("doctor", str(bundle), "--json").json
    assert f"compute        npu {SIMULATOR}" in cli("doctor", str(bundle)).out
    assert told["plan"]["devices"] == [SIMULATOR] and told["plan"]["context_length"] == 512
    faulty = FAULTS["shared"].make(qairt_bundles, tmp_path)
    refused = cli("doctor", str(faulty), "--json")
    assert refused.code == 1 and "share their weights" in refused.err
    assert "share their weights" in refused.json["refusals"][0]
    version = cli("version", "--json").json["runtimes"]["qairt"]
    assert f"QAIRT Runtime Version: {version}\n" in cli("version").out
    probes = {probe["probe"]: probe["found"] for probe in told["machine"]["probes"]}
    assert version in probes["runtime qairt"] and SIMULATOR in probes["runtime qairt"]
    assert "onnxruntime_qnn" in probes["runtime qairt"]
