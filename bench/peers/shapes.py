"""What all programs of bench/peers share: the shapes of bench/train.cpp, the data, the timing, the JSON line."""
import argparse
import json
import statistics
import time

import torch

COMMON = dict(hidden=256, layers=4, heads=8, kv_heads=2, head_dim=32, sequence=256, rope_theta=1e6)
SHAPES = {
    "base": dict(vocab=256, experts=16, top_k=4, width=128),
    "large_vocab": dict(vocab=32000, experts=16, top_k=4, width=128),
    "fine": dict(vocab=256, experts=64, top_k=8, width=64),
    "fine_narrow": dict(vocab=256, experts=64, top_k=8, width=32),
}


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--shape", default="base", choices=SHAPES)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--batch", type=int, default=8, help="sequences")
    p.add_argument("--experts", required=True, help="how the peer computes its experts")
    return p.parse_args()


def measure(args, software, model, logits_of):
    """Times forward, mean cross-entropy, backward, fused AdamW and zeroing; prints the line that run.py reads."""
    vocab = SHAPES[args.shape]["vocab"]
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    seconds, losses = [], []
    for step in range(args.warmup + args.steps):
        tokens = torch.randint(0, vocab, (args.batch, COMMON["sequence"] + 1), generator=generator)
        start = time.perf_counter()
        logits = logits_of(model, tokens[:, :-1].contiguous())
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= args.warmup:
            seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
    count = args.batch * COMMON["sequence"]
    median = statistics.median(seconds)
    print(json.dumps({"bench": "train", "software": software, "shape": args.shape, "threads": args.threads,
                      "tokens": count, "parameters": sum(p.numel() for p in model.parameters()), "steps": args.steps,
                      "tokens_per_s": count / median, "step_ms": median * 1e3, "loss_first": losses[0],
                      "loss_last": losses[-1]}), flush=True)
