"""How the built-in tiny pair was made: corpus, tokenizer, networks, training, GGUF files.

    python -m ci.tiny_pair --out DIR              # the pair, about 20 minutes on two cores
    python -m ci.tiny_pair --out DIR --random     # untrained, the same shapes, in seconds

Needs torch 2.13, numpy and gguf; from the clone's folder. Every choice comes from `--seed`.
"""
