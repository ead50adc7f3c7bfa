"""Prompts whose answers repeat what they were given, and prompts whose answers do not."""

from ci.benchmarks.prompts import PROMPTS

_CODE = """def read_orders(path):
    orders = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            name, count, price = line.strip().split(",")
            orders.append({"name": name, "count": int(count), "price": float(price)})
    return orders


def total(orders):
    result = 0.0
    for order in orders:
        result += order["count"] * order["price"]
    return result


def by_name(orders):
    found = {}
    for order in orders:
        found.setdefault(order["name"], []).append(order)
    return found


def report(orders):
    for name, group in sorted(by_name(orders).items()):
        print(f"{name}: {len(group)} orders, {total(group):.2f}")
    print(f"all: {len(orders)} orders, {total(orders):.2f}")
"""
_TEXT = (
    "The lighthouse stood at the end of a narrow spit of land, and for two hundred years its lamp "
    "had been lit every evening. The keeper, a quiet man named Arne, climbed the stairs an hour "
    "before sunset with a can of oil in each hand. He cleaned the glass, trimmed the wick, and "
    "wound the clockwork that turned the lens. From the gallery he could see the whole bay: the "
    "fishing boats coming home, the gulls behind them, and far out the grey line where the weather "
    "came from. On clear nights he counted the ships. On foggy nights he rang the bell, three "
    "strokes every minute, until the fog had gone or the morning had come. In the winter of the "
    "great storm he rang it for two days without sleep, and eleven ships found the harbour."
)


def _chat(question: str, begun: str) -> str:
    """A question in the chat format of SmolLM2, and how its answer begins."""
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{begun}"


# where the code that is asked for ends
STOP = "```"
# each answer has been begun where the model would else do something else with the task
REPEATING = (
    _chat(
        f"In this code, call the file `source` and not `path`:\n\n```python\n{_CODE}```",
        "```python\ndef read_orders(source):\n    orders = []\n    with open(source, encoding=",
    ),
    f"Quote this text word for word.\n\nText: {_TEXT}\n\nQuote: The lighthouse stood at the end",
    _chat(f"Repeat this text word for word:\n\n{_TEXT}", "The lighthouse stood at the end"),
)
ORDINARY = PROMPTS[:10]
