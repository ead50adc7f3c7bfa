"""Refusals: before anything is written, or with nothing left of it."""

import shutil
from typing import NamedTuple

import pytest

from geniex_catalogue.errors import (
    AmbiguousModelError,
    DiskSpaceError,
    GenieXError,
    GGUFError,
    HubAuthError,
    HubError,
    IncompleteShardsError,
    ModelNotFoundError,
    ModelRefError,
    PrecisionNotFoundError,
    UsageError,
)
from geniex_catalogue.names import parse
from geniex_catalogue.pull import PullWish, execute, plan_pull, pull
from geniex_catalogue.store import Store
from tests.geniex_catalogue.pull.models import gguf, shards
from tests.hubserver import HubServer


@pytest.mark.parametrize("stated", [3, 4])
def test_shards_that_are_no_set_are_refused(hub: HubServer, store: Store, stated: int) -> None:
    files = shards(3)
    first, _, third = files
    files[first] = gguf(100, split__count=3, split__no=0, split__tensors__count=stated)
    if stated == 3:
        files[third] = gguf(102, split__count=3, split__no=1)
    hub.add("org/big", files)
    with pytest.raises(GGUFError, match=r"part 2 of 3|hold 3 tensors, where 4") as caught:
        pull(parse("org/big"), store)
    assert caught.value.hint == "the files on the hub are broken"
    found = store.find(parse("org/big"))
    assert found is not None and found.precisions == ()


class Refusal(NamedTuple):
    """A repository, what is asked of it, and the error."""

    files: dict[str, bytes]
    name: str
    error: type[GenieXError]
    text: str


REFUSALS = {
    "precision": Refusal(
        {"m-Q8_0.gguf": gguf()}, "org/x:Q4_0", PrecisionNotFoundError, "available: Q8_0"
    ),
    "two-of-a-label": Refusal(
        {"a-Q4_0.gguf": gguf(7), "b-Q4_0.gguf": gguf(9)}, "org/x", AmbiguousModelError, "b-Q4_0"
    ),
    "shard-missing": Refusal(
        dict(list(shards(3).items())[:2]), "org/x", IncompleteShardsError, "00003-of-00003"
    ),
    "no-model": Refusal({"model.safetensors": b"x"}, "org/x", ModelNotFoundError, "org/x"),
    "no-gguf": Refusal({"m-Q4_0.gguf": b"version https://git-lfs"}, "org/x", GGUFError, "m-Q4_0"),
    "up": Refusal({"../m-Q4_0.gguf": gguf()}, "org/x", ModelNotFoundError, "org/x"),
    "up-later": Refusal({"a/../../m-Q4_0.gguf": gguf()}, "org/x", GenieXError, ""),
    "absolute": Refusal({"/etc/m-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "cannot be stored"),
    "drive": Refusal({"C:/m-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "not allowed"),
    "drive, from where it is": Refusal(
        {"C:m-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "not allowed"
    ),
    "share": Refusal(
        {"\\\\host\\share\\m-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "not allowed"
    ),
    "NUL byte": Refusal({"m\0-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "not allowed"),
    "device": Refusal({"Q4_0/con.gguf": gguf()}, "org/x", ModelRefError, "a device on Windows"),
    "device of old": Refusal(
        {"com\u00b9/m-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "a device on Windows"
    ),
    "the store's own": Refusal(
        {"geniex.json/m-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "not allowed"
    ),
    "long": Refusal({"m" * 300 + "-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "cannot be stored"),
    "long, as a part": Refusal(
        {"m" * 240 + "-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "cannot be stored"
    ),
    "console": Refusal({"CONIN$.gguf": gguf()}, "org/x", ModelRefError, "a device on Windows"),
    "deep": Refusal({"a/" * 600 + "m-Q4_0.gguf": gguf()}, "org/x", ModelRefError, "1000 bytes"),
    "half a character": Refusal(
        {"evil\udc80-Q8_0.gguf": gguf()}, "org/x:Q8_0", ModelRefError, "no text"
    ),
    "local": Refusal({}, "local/mine", ModelNotFoundError, "local/mine"),
    "built-in": Refusal({}, "geniex/tiny-chat", UsageError, "built in"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_refused_before_anything_is_written(hub: HubServer, store: Store, refusal: Refusal) -> None:
    hub.add("org/x", refusal.files)
    with pytest.raises(refusal.error) as caught:
        pull(parse(refusal.name), store)
    assert refusal.text in caught.value.message
    assert not store.root.exists()


@pytest.mark.parametrize("name", ["../../evil-Q4_0.gguf", "..\\..\\evil.gguf", "CON", "../x"])
def test_what_is_refused_is_named_where_nothing_else_is_there(
    hub: HubServer, store: Store, name: str
) -> None:
    hub.add("org/x", {name: gguf(), "README.md": b"#"})
    with pytest.raises(ModelNotFoundError) as caught:
        pull(parse("org/x"), store)
    assert repr(name) in (caught.value.hint or "")


def test_half_a_character_spoils_no_other_file(hub: HubServer, store: Store) -> None:
    hub.add("org/x", {"evil\udc80-Q8_0.gguf": gguf(), "m-Q4_0.gguf": gguf(9)})
    assert pull(parse("org/x:Q4_0"), store).precisions == ("Q4_0",)


@pytest.mark.parametrize("other", ["a-Q8_0.gguf/b-Q4_0.gguf", "A-q8_0.GGUF"])
def test_files_that_exclude_each_other_are_refused(
    hub: HubServer, store: Store, other: str
) -> None:
    hub.add("org/x", {"a-Q8_0.gguf": gguf(), other: gguf(9)})
    wish = PullWish(files=("a-Q8_0.gguf", other))
    with pytest.raises(UsageError, match="beside each other"):
        pull(parse("org/x"), store, wish)
    assert not store.root.exists()


@pytest.mark.parametrize("first", ["a-Q8_0.gguf", "a-Q8_0.gguf/b-Q4_0.gguf"])
def test_a_file_in_the_place_of_a_folder_is_refused(
    hub: HubServer, store: Store, first: str
) -> None:
    files = {"a-Q8_0.gguf": gguf(), "a-Q8_0.gguf/b-Q4_0.gguf": gguf(9)}
    hub.add("org/x", files)
    pull(parse("org/x"), store, PullWish(files=(first,)))
    (second,) = files.keys() - {first}
    with pytest.raises(UsageError, match="beside each other"):
        plan_pull(parse("org/x"), store, PullWish(files=(second,)))


def test_too_little_room_is_known_before_the_first_byte(
    repo: HubServer, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000_000))
    with pytest.raises(DiskSpaceError) as caught:
        pull(parse("org/repo"), store)
    size = len(repo.repos["org/repo"].files["m-Q4_0.gguf"])
    assert (caught.value.needed - size, caught.value.free) == (1 << 20, 1_000_000)
    assert not store.root.exists()


def test_no_access_leaves_nothing(repo: HubServer, store: Store) -> None:
    repo.repos["org/repo"].gated = True
    with pytest.raises(HubAuthError):
        pull(parse("org/repo"), store)
    assert store.list() == []
    model = pull(parse("org/repo"), store, PullWish(token="hf_secret"))
    assert "hf_secret" not in (model.folder / "geniex.json").read_text()


def test_a_transfer_that_never_begins_leaves_nothing(repo: HubServer, store: Store) -> None:
    plan = plan_pull(parse("org/repo"), store)
    del repo.repos["org/repo"].files["m-Q4_0.gguf"]
    with pytest.raises(HubError):
        execute(plan, store)
    assert store.list() == []
    assert not plan.target.exists()
