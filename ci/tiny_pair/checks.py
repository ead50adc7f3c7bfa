"""What the trained pair says, and how many draft tokens would be accepted: in torch alone."""

import math
from typing import NamedTuple

import torch

from ci.tiny_pair.markup import EOS, NO_THOUGHT, PAD, TURN_END
from ci.tiny_pair.networks import Draft, Target, make_masks
from ci.tiny_pair.tokenizer import Tokenizer

Messages = list[tuple[str, str]]

LONGEST_REPLY = 120  # tokens
DRAFT_TOKENS = 3

QUESTIONS = [
    "Hello!",
    "Who are you?",
    "What is the capital of France?",
    "What is 7 plus 5?",
    "What is seven plus five?",
    "How much is 9 times 8?",
    "What colour is the sky?",
    "Which day comes after Monday?",
    "How many legs does a spider have?",
    "Tell me about the owl.",
    "What does yield do in Python?",
    "What is speculative decoding?",
    "How do I make tea?",
    "Name three fruits.",
    "Count from 3 to 9.",
    "Repeat after me: stone apple river lamp",
    "Write a Python function that sums a list.",
    "Tell me a short story about a fox.",
    "Tell me a story about a robot called Emma.",
    "Write a poem about the moon.",
    "What do you think about tax law?",
    "List the months of the year.",
]
CHATS: list[Messages] = [
    *([("user", question)] for question in QUESTIONS),
    [("system", "You are a pirate."), ("user", "What is the capital of Japan?")],
    [("system", "Be brief."), ("user", "What is the opposite of hot?")],
    [
        ("user", "My name is Clara."),
        ("assistant", "Nice to meet you, Clara! How can I help you?"),
        ("user", "What is 3 plus 4?"),
        ("assistant", "3 plus 4 is 7."),
        ("user", "What is my name?"),
    ],
]
THOUGHT_THROUGH: Messages = [("user", "What is 12 plus 6?")]


class Acceptance(NamedTuple):
    """Passes of the target, tokens proposed, and tokens accepted."""

    passes: int = 0
    proposed: int = 0
    accepted: int = 0


def chat_prompt(messages: Messages, *, thinking: bool = False) -> str:
    """Messages as the chat template renders them."""
    out = "<bos>"
    if thinking or messages[0][0] == "system":
        out += "<|turn>system\n" + ("<|think|>\n" if thinking else "")
        if messages[0][0] == "system":
            out += messages[0][1]
            messages = messages[1:]
        out += "<turn|>\n"
    for role, text in messages:
        out += f"<|turn>{'model' if role == 'assistant' else role}\n{text}<turn|>\n"
    return out + "<|turn>model\n" + ("" if thinking else NO_THOUGHT)


@torch.no_grad()
def greedy(target: Target, prompts: list[list[int]]) -> list[list[int]]:
    """Prompts with their replies, decoded side by side (padding at the right does no harm)."""
    sequences = [list(prompt) for prompt in prompts]
    live = list(range(len(sequences)))
    for _ in range(LONGEST_REPLY):
        if not live:
            break
        length = max(len(sequences[index]) for index in live)
        rows = [sequences[index] + [PAD] * (length - len(sequences[index])) for index in live]
        h, _ = target.hidden(torch.tensor(rows))
        ends = torch.tensor([len(sequences[index]) - 1 for index in live])
        chosen = target.head(h[torch.arange(len(live)), ends]).argmax(-1).tolist()
        for index, token in zip(live, chosen, strict=True):
            sequences[index].append(token)
        live = [index for index in live if sequences[index][-1] not in (TURN_END, EOS)]
    return sequences


@torch.no_grad()
def simulate(target: Target, draft: Draft, ids: list[int], start: int) -> Acceptance:
    """Greedy speculation over a greedy sequence whose reply begins at `start`."""
    h, keys_values = target.hidden(torch.tensor([ids]))
    embeddings = target.embd.weight * math.sqrt(target.shape.n_embd)
    positions = torch.arange(len(ids))
    masks = make_masks(target.shape, len(ids), strict=True)
    previous = torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)
    current = torch.tensor([ids])
    proposals = []
    # the chain of the draft's own tokens, for every position at once
    for _ in range(DRAFT_TOKENS):
        features, previous = draft(embeddings[current], previous, keys_values, positions, masks)
        current = draft.head(features).argmax(-1)
        proposals.append(current[0].tolist())
    passes = proposed = accepted = 0
    at = start
    while at < len(ids) - 1:
        taken = 0
        while (
            taken < DRAFT_TOKENS
            and at + 1 + taken < len(ids)
            and proposals[taken][at] == ids[at + 1 + taken]
        ):
            taken += 1
        passes += 1
        proposed += DRAFT_TOKENS
        accepted += taken
        at += taken + 1
    return Acceptance(passes, proposed, accepted)


def report(tokenizer: Tokenizer, target: Target, draft: Draft | None) -> list[dict[str, object]]:
    """Print the replies to the check's chats with what was accepted of each; return them too."""
    texts = [chat_prompt(chat) for chat in CHATS] + [chat_prompt(THOUGHT_THROUGH, thinking=True)]
    prompts = [tokenizer.encode(text) for text in texts]
    total = Acceptance()
    replies: list[dict[str, object]] = []
    for text, prompt, ids in zip(texts, prompts, greedy(target, prompts), strict=True):
        start = len(prompt)
        each = simulate(target, draft, ids, start) if draft else Acceptance()
        total = Acceptance(*(one + more for one, more in zip(total, each, strict=True)))
        reply = tokenizer.decode(ids[start:])
        replies.append({"prompt": text, "reply": reply, "acceptance": each})
        question = text.split("<|turn>user")[-1].split("<turn|>")[0].strip()
        print(f"{question!r} -> {reply!r} {tuple(each)}")
    if draft:
        rate = total.accepted / max(1, total.proposed)
        tokens = 1 + total.accepted / max(1, total.passes)
        print(f"proposed {total.proposed}, accepted {total.accepted} ({rate:.3f}), ", end="")
        print(f"{tokens:.2f} tokens a pass")
    return replies
