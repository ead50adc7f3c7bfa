"""A chat template made of the table of prefixes and suffixes that AI Hub's metadata has.

The table knows no tools and no conditions: a tokenizer's own template says more, where there is
one.
"""

import json

from geniex_runtimes.qairt.bundle_json import Section

_ROLES = ("system", "user", "assistant")
_KEYS = (
    "global_prefix",
    "default_system_prompt",
    *(f"{role}_{side}" for role in _ROLES for side in ("prefix", "suffix")),
)


def prefix_template(table: Section) -> str | None:
    """A Jinja template that writes messages as the table says; None for an empty table.

    The default system prompt stands in where a talk begins without one. Raises BundleError.
    """
    texts = {key: table.text(key) or "" for key in _KEYS}
    if not any(texts.values()):
        return None
    words = {key: _literal(text) for key, text in texts.items()}
    parts = ["{{ ", words["global_prefix"], " }}"]
    if texts["default_system_prompt"]:
        default = "system_prefix", "default_system_prompt", "system_suffix"
        parts += [
            "{% if not messages or messages[0]['role'] != 'system' %}{{ ",
            " + ".join(words[key] for key in default),
            " }}{% endif %}",
        ]
    parts += ["{% for message in messages %}"]
    for role in _ROLES:
        parts += [
            f"{{% if message['role'] == '{role}' %}}{{{{ ",
            f"{words[f'{role}_prefix']} + message['content'] + {words[f'{role}_suffix']}",
            " }}{% endif %}",
        ]
    parts += ["{% endfor %}{% if add_generation_prompt %}{{ ", words["assistant_prefix"]]
    return "".join([*parts, " }}{% endif %}"])


def _literal(text: str) -> str:
    """Text as a literal of Jinja, whose escapes are a part of JSON's."""
    return json.dumps(text, ensure_ascii=False)
