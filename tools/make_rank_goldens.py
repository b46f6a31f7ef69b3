#!/usr/bin/env python3
"""Writes tests/golden/rank_groups.txt: the groups that Megatron-core's RankGenerator makes of several hundred meshes.

    pip install megatron-core torch        # in an environment of its own; the CPU is enough
    tools/make_rank_goldens.py > tests/golden/rank_groups.txt

A line for each mesh: its degrees and orders, whether the stages of dense layers and of experts agree (what Megatron asserts), and
a digest of the groups of every set of dense axes and of every set of the experts' axes. Small meshes are spelled out below their line.
The digest is FNV-1a (64 bits) over the lines as they are spelled.
"""
import itertools
import random
import sys

from megatron.core import __version__
from megatron.core.parallel_state import RankGenerator

DENSE = ["tp", "cp", "dp", "pp"]
EXPERTS = ["pp", "ep", "etp", "edp"]
TOKEN = {"etp": "tp", "edp": "dp"}  # Megatron gives both generators the same names


def subsets(axes):
    return [s for n in range(1, 5) for s in itertools.combinations(axes, n)]


def lines(generator, axes):
    for subset in subsets(axes):
        groups = generator.get_ranks("-".join(TOKEN.get(a, a) for a in subset))
        yield "-".join(subset) + ": " + " ".join(",".join(map(str, g)) for g in groups)


def digest(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def write(tp, cp, dp, pp, ep, etp, order, expert_order, spell):
    dense = RankGenerator(tp=tp, ep=1, dp=dp, pp=pp, cp=cp, order=order)
    edp = tp * cp * dp // (ep * etp)
    own = "-".join(TOKEN.get(a, a) for a in expert_order.split("-")) if expert_order else order
    experts = RankGenerator(tp=etp, ep=ep, dp=edp, pp=pp, cp=1, order=own)
    agree = dense.get_ranks("pp") == experts.get_ranks("pp")
    d, e = list(lines(dense, DENSE)), list(lines(experts, EXPERTS))
    print(f"mesh {tp} {cp} {dp} {pp} {ep} {etp} {order} {expert_order or '-'} {int(agree)} {digest(chr(10).join(d))} {digest(chr(10).join(e))}")
    if spell:
        for line in d + e:
            print(line)


def main():
    print(f"# {sys.argv[0].split('/')[-1]}, megatron-core {__version__}")
    print("# mesh tp cp dp pp ep etp order expert_order stages_agree digest_of_dense digest_of_experts")
    random.seed(1)
    for i in range(400):
        small = i % 10 == 0
        sizes, most = ([1, 2, 3], 12) if small else ([1, 1, 2, 2, 3, 4, 5, 8], 768)
        while True:
            tp, cp, dp, pp = (random.choice(sizes) for _ in range(4))
            if tp * cp * dp * pp <= most:
                break
        # Every other mesh has as many ranks of experts as of dense layers beside dp, so that stages may lie inside dp.
        ranks = tp * cp if i % 2 else tp * cp * dp
        ep = random.choice(divisors(ranks))
        etp = ranks // ep if i % 2 else random.choice(divisors(ranks // ep))
        order = ["tp", "cp", "ep", "dp", "pp"]
        if i % 4 == 1:
            order = ["tp", "cp", "ep", "pp", "dp"]
        elif i % 4 >= 2:
            random.shuffle(order)
        own = ["etp", "ep", "edp", "pp"]
        random.shuffle(own)
        write(tp, cp, dp, pp, ep, etp, "-".join(order), "-".join(own) if i % 3 == 2 else "", small)


main()
