"""The tokenizer of the tiny decoder: byte-level BPE with four special tokens."""

import random

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from ci.qairt_bundles.corpus import MANY_BYTES, SPECIAL, document

SIZE = 512


def train() -> Tokenizer:
    """Learn the merges from the corpus; the same every time."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True, normalized=False) for text in SPECIAL]
    trainer = trainers.BpeTrainer(
        vocab_size=SIZE,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    chance = random.Random(0)
    texts = [document(chance).replace(MANY_BYTES, "") for _ in range(2000)]
    for text in SPECIAL:
        texts = [part for whole in texts for part in whole.split(text)]
    tokenizer.train_from_iterator(texts, trainer)
    if tokenizer.get_vocab_size() != SIZE:
        raise ValueError(f"{tokenizer.get_vocab_size()} tokens came out, not {SIZE}")
    return tokenizer
