"""Training of target and draft: Muon for matrices, AdamW for the rest, bf16 on the CPU."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ci.tiny_pair.markup import PAD
from ci.tiny_pair.networks import Draft, Shape, Target, make_masks
from ci.tiny_pair.samples import Sample, draw_groups
from ci.tiny_pair.tokenizer import Tokenizer

LOG_EVERY = 50
DRAFT_ROLLOUT = 3  # steps of the draft that are trained
DRAFT_DECAY = 0.8  # weight of each further step


@dataclass(frozen=True)
class Schedule:
    """How long and on how much: `tokens` of a batch, `longest` sample in tokens."""

    seed: int
    target_steps: int
    polish_steps: int
    draft_steps: int
    tokens: int
    longest: int


def batches(
    tokenizer: Tokenizer, schedule: Schedule, offset: int, *, last_only: bool = False
) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless padded batches: ids and weights, both B T."""
    groups = draw_groups(
        tokenizer,
        schedule.seed + offset,
        schedule.tokens,
        schedule.longest,
        last_only=last_only,
    )
    return (padded(group) for group in groups)


def padded(group: Sequence[Sample]) -> tuple[Tensor, Tensor]:
    """Samples as ids and weights, B T, filled up at the right."""
    length = max(len(ids) for ids, _ in group)
    all_ids = torch.full((len(group), length), PAD)
    all_weights = torch.zeros(len(group), length)
    for row, (ids, weights) in enumerate(group):
        all_ids[row, : len(ids)] = torch.tensor(ids)
        all_weights[row, : len(weights)] = torch.tensor(weights)
    return all_ids, all_weights


def _optimizers(model: nn.Module, muon: float, adam: float) -> list[Any]:
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and "embd" not in name]
    rest = [p for name, p in named if p.ndim != 2 or "embd" in name]
    return [
        torch.optim.Muon(matrices, lr=muon, momentum=0.95, weight_decay=0.01),
        torch.optim.AdamW(rest, lr=adam, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def _run(
    model: nn.Module, optimizers: list[Any], steps: int, loss_of: Callable[[], Tensor], name: str
) -> None:
    """Train with a warm-up of 5 % and a linear decay over the second half."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    full_rates = [group["lr"] for group in groups]
    started = time.time()
    losses: list[float] = []
    for step in range(steps):
        warm_up = min(1.0, (step + 1) / max(1, steps // 20))
        decay = min(1.0, (steps - step) / max(1, int(steps * 0.5)))
        for group, rate in zip(groups, full_rates, strict=True):
            group["lr"] = rate * (warm_up * decay)
        loss = loss_of()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if (step + 1) % LOG_EVERY == 0 or step == steps - 1:
            mean = sum(losses) / len(losses)
            seconds = time.time() - started
            print(f"[{name}] step {step + 1}/{steps} loss {mean:.4f} {seconds:.0f}s", flush=True)
            losses.clear()


def _target_loss(target: Target, ids: Tensor, weights: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h, _ = target.hidden(ids[:, :-1])
        wanted, weight = ids[:, 1:], weights[:, 1:]
        counts = weight > 0
        logits = target.head(h[counts])
    loss = functional.cross_entropy(logits, wanted[counts], reduction="none")
    return (loss * weight[counts]).sum() / weight[counts].sum()


def train_target(
    shape: Shape, tokenizer: Tokenizer, schedule: Schedule, stage_one: Path | None = None
) -> Target:
    """Stage 1: every answer counts. Stage 2, short: only the last one, as in real use.

    Earlier answers carry no thought, so counting them would teach the model to skip it when
    thinking is on. `stage_one` is a file of weights to start stage 2 from.
    """
    torch.manual_seed(schedule.seed)
    target = Target(shape)
    if stage_one:
        target.load_state_dict(torch.load(stage_one))
    else:
        data = batches(tokenizer, schedule, 1)
        _run(
            target,
            _optimizers(target, 0.02, 3e-3),
            schedule.target_steps,
            lambda: _target_loss(target, *next(data)),
            "target",
        )
    polish = batches(tokenizer, schedule, 2, last_only=True)
    _run(
        target,
        _optimizers(target, 0.005, 1e-3),
        schedule.polish_steps,
        lambda: _target_loss(target, *next(polish)),
        "polish",
    )
    target.eval()
    return target


def rollout(target: Target, draft: Draft, ids: Tensor) -> Iterator[tuple[Tensor, Tensor, int]]:
    """Teacher-forced steps of the draft: its features, the target's states, and the step s.

    The features of query i after step s predict the token at i + 1 + s. Query i sees the target's
    keys and values of positions before i only, and keeps its position in all steps.
    """
    shape = target.shape
    with torch.no_grad():
        h, keys_values = target.hidden(ids)
        embeddings = target.embd(ids) * math.sqrt(shape.n_embd)
    positions = torch.arange(ids.shape[1])
    masks = make_masks(shape, ids.shape[1], strict=True)
    previous = torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], 1)
    for step in range(DRAFT_ROLLOUT):
        embedding = functional.pad(embeddings[:, step:], (0, 0, 0, step))
        features, previous = draft(embedding, previous, keys_values, positions, masks)
        yield features, h, step


def _draft_loss(target: Target, draft: Draft, ids: Tensor, weights: Tensor) -> Tensor:
    total: Any = 0.0
    sum_of_factors = 0.0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for features, h, step in rollout(target, draft, ids):
            # kept where the token that is predicted has a weight
            count = ids.shape[1] - 1 - step
            weight = weights[:, 1 + step :].clone()
            weight[:, 0] = 0
            counts = weight > 0
            with torch.no_grad():
                teacher = target.head(h[:, step : step + count][counts]).softmax(-1)
            logits = draft.head(features[:, :count][counts])
            loss = -(teacher * logits.log_softmax(-1)).sum(-1)
            factor = DRAFT_DECAY**step
            total = total + factor * (loss * weight[counts]).sum() / weight[counts].sum()
            sum_of_factors += factor
    return total / sum_of_factors


def train_draft(shape: Shape, tokenizer: Tokenizer, target: Target, schedule: Schedule) -> Draft:
    """Train the draft on the target's own distributions; the target stays as it is."""
    torch.manual_seed(schedule.seed + 10)
    for parameter in target.parameters():
        parameter.requires_grad_(False)
    draft = Draft(shape)
    data = batches(tokenizer, schedule, 11)
    _run(
        draft,
        _optimizers(draft, 0.02, 3e-3),
        schedule.draft_steps,
        lambda: _draft_loss(target, draft, *next(data)),
        "draft",
    )
    draft.eval()
    return draft
