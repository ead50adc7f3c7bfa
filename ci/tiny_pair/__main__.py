"""`python -m ci.tiny_pair --out DIR`: train the tiny pair and write it as GGUF files."""

import argparse
import json
import time
from pathlib import Path

import torch

from ci.tiny_pair.checks import report
from ci.tiny_pair.gguf_files import DRAFT, TARGET, draft_tensors, target_tensors, write_file
from ci.tiny_pair.networks import Draft, Shape, Target
from ci.tiny_pair.samples import tokenizer_texts
from ci.tiny_pair.tokenizer import Tokenizer, train
from ci.tiny_pair.training import Schedule, train_draft, train_target
from ci.tiny_pair.variants import write_variants


def read_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="ci.tiny_pair", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for everything written")
    parser.add_argument("--seed", type=int, default=20261130)
    parser.add_argument("--name", default="tiny", help="start of the file names")
    parser.add_argument("--types", default="q8_0,f16", help="of q8_0, f16, f32")
    parser.add_argument("--random", action="store_true", help="no training: untrained weights")
    parser.add_argument("--variants", action="store_true", help="also files that do not fit")
    parser.add_argument("--target-steps", type=int, default=1300)
    parser.add_argument("--polish-steps", type=int, default=150)
    parser.add_argument("--draft-steps", type=int, default=110, help="more: more is accepted")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--longest", type=int, default=384, help="tokens of the longest sample")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--stage-one", type=Path, help="weights to start the polish from")
    parser.add_argument("--target-weights", type=Path, help="a trained target, not trained again")
    return parser.parse_args()


def make_networks(
    args: argparse.Namespace, shape: Shape, tokenizer: Tokenizer
) -> tuple[Target, Draft]:
    """Train target and draft as asked for, and keep their weights beside the files."""
    torch.manual_seed(args.seed)
    if args.random:
        return Target(shape).eval(), Draft(shape).eval()
    schedule = Schedule(
        seed=args.seed,
        target_steps=args.target_steps,
        polish_steps=args.polish_steps,
        draft_steps=args.draft_steps,
        tokens=args.batch_tokens,
        longest=args.longest,
    )
    if args.target_weights:
        target = Target(shape)
        target.load_state_dict(torch.load(args.target_weights))
        target.eval()
    else:
        target = train_target(shape, tokenizer, schedule, args.stage_one)
        torch.save(target.state_dict(), args.out / "target.pt")
    draft = train_draft(shape, tokenizer, target, schedule)
    torch.save(draft.state_dict(), args.out / "draft.pt")
    return target, draft


def write_pair(
    args: argparse.Namespace, shape: Shape, tokenizer: Tokenizer, target: Target, draft: Draft
) -> dict[str, int]:
    """Write both networks in every type; file names and sizes in bytes."""
    sizes: dict[str, int] = {}
    for kind in args.types.split(","):
        for role, architecture, label, tensors in (
            ("target", TARGET, "gemma4 target", target_tensors(target)),
            ("draft", DRAFT, "gemma4 MTP draft", draft_tensors(draft)),
        ):
            path = args.out / f"{args.name}-{role}-{kind}.gguf"
            title = f"{args.name} {label}"
            sizes[path.name] = write_file(
                path, architecture, shape, tokenizer, tensors, title, kind
            )
    return sizes


def main() -> None:
    """Make everything, say what was made, and leave a report beside the files."""
    args = read_arguments()
    torch.set_num_threads(args.threads)
    started = time.time()
    args.out.mkdir(parents=True, exist_ok=True)
    shape = Shape()
    tokenizer = train(tokenizer_texts(args.seed), shape.n_vocab)
    print(f"tokenizer: {len(tokenizer.tokens)} tokens, {len(tokenizer.merges)} merges", flush=True)
    target, draft = make_networks(args, shape, tokenizer)
    replies = [] if args.random else report(tokenizer, target, draft)
    sizes = write_pair(args, shape, tokenizer, target, draft)
    if args.variants:
        sizes |= write_variants(args.out, args.name, args.seed, shape, tokenizer, target)
    for name, size in sizes.items():
        print(f"{name}: {size} bytes")
    facts = {"sizes": sizes, "seconds": time.time() - started, "replies": replies}
    (args.out / "report.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
