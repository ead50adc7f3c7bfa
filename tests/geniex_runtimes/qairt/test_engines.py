"""Both engines, on Qualcomm's simulator, against the CPU provider on the same quantised graphs."""

from typing import Any

import pytest

from ci.qairt_bundles.corpus import PROMPTS
from tests.geniex_runtimes.qairt.engine_child import Result, greedy, load, run
from tests.qairt_bundles import ENDS, QairtBundles

STORY, COUNT = "Once upon a time", "Count: one two three"
ENGINES = ("genie", "ort")
# architecture and parts, and how many tokens are compared for each prompt
BUNDLES = {(73, 1): 5, (73, 2): 4, (75, 1): 2, (79, 1): 2, (81, 1): 2}


@pytest.fixture(scope="module", params=ENGINES)
def answers(
    request: pytest.FixtureRequest, qairt_bundles: QairtBundles
) -> dict[tuple[int, int], list[Result]]:
    """What one engine says to each prompt, for every bundle."""
    prompts = [qairt_bundles.encode(text) for text in PROMPTS]
    operations = []
    for (arch, parts), count in BUNDLES.items():
        operations.append(load(qairt_bundles.folder(arch, parts)))
        operations += [greedy(ids, count, ends=ENDS) for ids in prompts]
    found = run(request.param, operations)
    each = 1 + len(prompts)
    return {key: found[at * each : (at + 1) * each] for at, key in enumerate(BUNDLES)}


@pytest.mark.parametrize(("arch", "parts"), BUNDLES, ids=lambda number: str(number))
def test_the_likeliest_tokens_are_those_of_the_cpu(
    qairt_bundles: QairtBundles,
    answers: dict[tuple[int, int], list[Result]],
    arch: int,
    parts: int,
) -> None:
    facts, *found = answers[arch, parts]
    assert facts == {"context": 64, "vocab": 512}
    prompts = [qairt_bundles.encode(text) for text in PROMPTS]
    assert len(prompts) == 20
    count = BUNDLES[arch, parts]
    expected = [qairt_bundles.reference(ids, count, parts=parts) for ids in prompts]
    assert [one["tokens"] for one in found] == expected


def counted(qairt_bundles: QairtBundles) -> list[int]:
    """A prompt that nearly fills the context, and whose answer has no end."""
    count = qairt_bundles.encode(COUNT)
    return [*count, *qairt_bundles.reference(count, 52 - len(count))]


@pytest.fixture(scope="module", params=ENGINES)
def talk(
    request: pytest.FixtureRequest,
    qairt_bundles: QairtBundles,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Result]:
    """What one engine gave, one request after the other."""
    ids, count, long = (
        qairt_bundles.encode(STORY),
        qairt_bundles.encode(COUNT),
        counted(qairt_bundles),
    )
    saved, empty = (str(tmp_path_factory.mktemp(name)) for name in ("saved", "empty"))
    answer = qairt_bundles.reference(ids, 12)
    operations: dict[str, dict[str, Any]] = {
        "load": load(qairt_bundles.folder()),
        "fresh": greedy(ids, 6),
        "again": greedy(ids, 6),
        "not reused": greedy(ids, 6, reuse=False),
        "next turn": greedy([*ids, *answer], 3),
        "another": greedy(count, 2),
        "back": greedy(ids, 6),
        "aborted": greedy(ids, 6, abort_at=3),
        "after abort": greedy(ids, 6),
        "failed": greedy(ids, 6, fail_at=2),
        "after failure": greedy(ids, 6),
        "save": {"do": "save", "folder": saved},
        "reset": {"do": "reset"},
        "restore": {"do": "restore", "folder": saved},
        "restored": greedy([*ids, *answer], 3),
        "restore nothing": {"do": "restore", "folder": empty},
        "full": greedy(long, 64 - len(long)),
        "after full": greedy(ids, 6),
        "long prompt": greedy([*ids, *answer] * 4, 1),
        "after long prompt": greedy(ids, 6),
        "load for 512": load(qairt_bundles.folder(context=(64, 512))),
        "outgrown": greedy(long, 20),
    }
    if request.param == "ort":
        operations |= {
            "load sliding": load(qairt_bundles.folder(), sliding=True),
            "slid": greedy(long, 20),
            "after sliding": greedy(count, 4),
            "sliding afresh": greedy(count, 4, reuse=False),
            "load another": load(qairt_bundles.folder(parts=2)),
            "restore another's": {"do": "restore", "folder": saved},
            "after another's": greedy(ids, 6),
        }
    found = run(request.param, list(operations.values()))
    return dict(zip(operations, found, strict=True)) | {"engine": {"name": request.param}}


def test_what_is_reused_changes_nothing(talk: dict[str, Result]) -> None:
    fresh = talk["fresh"]["tokens"]
    for name in ("again", "not reused", "back"):
        assert talk[name]["tokens"] == fresh, name
    assert talk["fresh"]["kept"] == talk["not reused"]["kept"] == 0
    assert talk["next turn"]["kept"] >= 10
    if talk["engine"]["name"] == "ort":
        assert talk["again"]["kept"] == talk["back"]["kept"] + 3 == 4


def test_an_abort_ends_it_and_the_next_goes_on(talk: dict[str, Result]) -> None:
    assert len(talk["aborted"]["tokens"]) in (3, 4)
    assert talk["after abort"]["tokens"] == talk["fresh"]["tokens"]


def test_an_error_of_the_caller_is_passed_on(talk: dict[str, Result]) -> None:
    assert talk["failed"] == {"error": "ZeroDivisionError: of the caller"}
    assert talk["after failure"]["tokens"] == talk["fresh"]["tokens"]


def test_a_sequence_is_saved_and_restored(talk: dict[str, Result]) -> None:
    assert talk["save"] == talk["restore"] == {}
    assert talk["restored"]["tokens"] == talk["next turn"]["tokens"]
    assert talk["restored"]["kept"] >= 10
    assert talk["restore nothing"]["error"].startswith("EngineError: ")


def test_the_context_can_be_filled_and_no_more(
    qairt_bundles: QairtBundles, talk: dict[str, Result]
) -> None:
    long = counted(qairt_bundles)
    assert talk["full"]["tokens"] == qairt_bundles.reference(long, 64 - len(long))
    assert talk["after full"]["tokens"] == talk["fresh"]["tokens"]
    assert "error" in talk["long prompt"]
    assert talk["after long prompt"]["tokens"] == talk["fresh"]["tokens"]


def test_an_answer_that_outgrows_the_shorter_graphs_goes_on_in_the_longer(
    qairt_bundles: QairtBundles, talk: dict[str, Result]
) -> None:
    assert talk["load for 512"]["context"] == 512
    expected = qairt_bundles.reference(counted(qairt_bundles), 20, context=512)
    assert talk["outgrown"]["tokens"] == expected


@pytest.mark.parametrize("talk", ["ort"], indirect=True)
def test_a_sliding_window_goes_on_past_the_context(
    qairt_bundles: QairtBundles, talk: dict[str, Result]
) -> None:
    long = counted(qairt_bundles)
    within = qairt_bundles.reference(long, 63 - len(long))
    assert len(talk["slid"]["tokens"]) == 20
    assert talk["slid"]["tokens"][: len(within)] == within
    # what moved in the cache is not taken for the beginning of a prompt
    assert talk["after sliding"]["tokens"] == talk["sliding afresh"]["tokens"]
    assert talk["after sliding"]["kept"] == 4


@pytest.mark.parametrize("talk", ["ort"], indirect=True)
def test_another_bundle_s_sequence_is_refused(talk: dict[str, Result]) -> None:
    assert "another bundle" in talk["restore another's"]["error"]
    assert talk["after another's"]["tokens"] == talk["fresh"]["tokens"]
