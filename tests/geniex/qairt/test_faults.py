"""What is wrong with a bundle is one clear error, and nothing else suffers."""

import zipfile
from pathlib import Path

import pytest
from openai import APIStatusError, OpenAI

from tests.cliharness import Cli
from tests.geniex.qairt.faults import FAULTS
from tests.geniex.qairt.test_served import FRANCE, ask, text


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_bundle_is_an_error_and_the_next_request_is_answered(
    client: OpenAI, name: str
) -> None:
    with pytest.raises(APIStatusError) as caught:
        client.chat.completions.create(
            model=f"local/{name}", messages=[{"role": "user", "content": "Hi"}]
        )
    assert FAULTS[name].says in caught.value.message
    if name == "garbled":
        assert "_part_1_of_1.bin` cannot" in caught.value.message
        assert "Pull or import the bundle again" in caught.value.message
    # what only the load shows may be the machine's fault, too
    failed = {"garbled": "model_load_failed"}.get(name, "model_unusable")
    assert caught.value.code in (failed, "model_not_usable")
    assert text(ask(client, FRANCE, max_completion_tokens=2)) == "The capital"


def test_a_zip_that_leads_elsewhere_is_refused(
    cli: Cli, data_dir: Path, bundle: Path, tmp_path: Path
) -> None:
    evil = tmp_path / "evil.zip"
    with zipfile.ZipFile(evil, "w") as archive:
        for file in bundle.iterdir():
            archive.write(file, f"bundle/{file.name}")
        archive.writestr("bundle/../../outside.txt", "out")
    result = cli("pull", "local/evil", "--local-path", str(evil))
    assert result.code != 0 and "outside.txt" in result.err
    assert not list(tmp_path.rglob("outside.txt"))
    assert cli("infer", "local/evil", "-p", "Hi", "--offline").code != 0
