"""The table of prefixes in AI Hub's metadata, as the chat template that it stands for."""

from pathlib import Path

import jinja2
import pytest

from geniex_runtimes.qairt.bundle import read_bundle
from tests.geniex_runtimes.qairt.plain_bundle import put, write

TALK = [("system", "Be brief."), ("user", "Hi {{ x }}"), ("assistant", "Ho"), ("user", "And?")]


@pytest.mark.parametrize(
    ("table", "talk", "text"),
    [
        pytest.param({}, TALK, None, id="empty"),
        pytest.param({"user_prefix": "", "vision_start": "<v>"}, TALK, None, id="nothing in it"),
        pytest.param(
            {"user_prefix": "Question: ", "user_suffix": " Answer:"},
            [("user", "why?")],
            "Question: why? Answer:",
            id="question",
        ),
        pytest.param(
            {
                "global_prefix": "<s>",
                "system_prefix": '<"sys">\n',
                "system_suffix": "</\\sys>",
                "user_prefix": "👤 ",
                "user_suffix": "\x1f{{ }}",
                "assistant_prefix": "ß: ",
                "assistant_suffix": "\u2581",
                "default_system_prompt": "unused",
            },
            TALK,
            '<s><"sys">\nBe brief.</\\sys>👤 Hi {{ x }}\x1f{{ }}ß: Ho\u2581👤 And?\x1f{{ }}ß: ',
            id="all of it",
        ),
        pytest.param(
            {"system_prefix": "[", "system_suffix": "]", "default_system_prompt": "Help."},
            [("user", "Hi")],
            "[Help.]Hi",
            id="default prompt",
        ),
    ],
)
def test_a_table_of_prefixes(
    tmp_path: Path, table: dict[str, str], talk: list[tuple[str, str]], text: str | None
) -> None:
    folder = write(tmp_path / "plain")
    (folder / "tokenizer_config.json").unlink()
    put("metadata.json", "genie.chat_template", table)(folder)
    template = read_bundle(folder).chat_template
    if text is None or template is None:
        assert template is text
        return
    messages = [{"role": role, "content": words} for role, words in talk]
    rendered = jinja2.Template(template, keep_trailing_newline=True).render(
        messages=messages, add_generation_prompt=True
    )
    assert rendered == text
