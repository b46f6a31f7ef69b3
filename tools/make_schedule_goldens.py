#!/usr/bin/env python3
"""Writes tests/golden/pipeline_schedules.txt: the schedules that PyTorch's own generators and Megatron-core's make.

    pip install torch megatron-core packaging numpy        # in an environment of its own; the CPU is enough
    tools/make_schedule_goldens.py > tests/golden/pipeline_schedules.txt

A line for each schedule: whose it is, its name here, stages (PyTorch's ranks), micro-batches, chunks of a stage, micro-batches
that a chunk takes in a row, and a digest of its rows as PyTorch writes them to CSV ("compute_only"), without the empty cells that
pad them. Small ones are spelled out below their line. The digest is FNV-1a (64 bits) over the rows, each with a line break.

Of Megatron-core come the order of chunks and micro-batches and each rank's warm-up; as in its
forward_backward_pipelining_with_interleaving the warm-up's forwards are followed by a forward and a backward in turn, then by the
other backwards, whose chunks go from the last to the first. With its overlap of experts' messages the two are one action.
"""
import sys
import types

import megatron.core
import torch
from megatron.core.pipeline_parallel import schedules as megatron_schedules
from torch.distributed.pipelining import schedules


class Stage:
    """What a generator asks of a stage."""

    def __init__(self, size, count):
        self.group_size, self.num_stages, self.group_rank = size, count, 0
        self.is_first = self.is_last = self.has_backward = False
        self.submod = torch.nn.Identity()


def rows(kind, stages, micro_batches, chunks):
    parts = [Stage(stages, stages * chunks) for _ in range(chunks)]
    made = kind(parts, micro_batches)
    return [",".join(str(a) for a in made.pipeline_order[rank] if a is not None) for rank in range(stages)]


def digest(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def megatron_rows(stages, micro_batches, chunks, group, merged):
    table = megatron_schedules.get_schedule_table(micro_batches, chunks, group)
    out = []
    for rank in range(stages):
        pipeline = types.SimpleNamespace(size=lambda: stages, rank=lambda: rank)
        communicator = types.SimpleNamespace(pp_group=pipeline, virtual_pipeline_model_parallel_size=chunks)
        _, _, warm_up, steady = megatron_schedules.get_pp_rank_microbatches(
            micro_batches, chunks, group, overlap_moe_expert_parallel_comm=merged, p2p_communicator=communicator)
        forward = [f"{chunk * stages + rank}F{mb}" for mb, chunk in table]
        backward = [f"{(chunks - 1 - chunk) * stages + rank}B{mb}" for mb, chunk in table]
        pairs = zip(forward[warm_up:], backward[:steady])
        middle = [f"({f};{b})OVERLAP_F_B" for f, b in pairs] if merged else [a for pair in pairs for a in pair]
        out.append(",".join(forward[:warm_up] + middle + backward[steady:]))
    return out


def write(whose, name, made, stages, micro_batches, chunks, group=0):
    text = "".join(row + "\n" for row in made)
    print(f"schedule {whose} {name} {stages} {micro_batches} {chunks} {group} {digest(text)}")
    if stages <= 3 and micro_batches <= 6:
        for row in made:
            print(row)


def main():
    print(f"# {sys.argv[0].split('/')[-1]}, torch {torch.__version__.split('+')[0]}, megatron-core {megatron.core.__version__}")
    print("# schedule whose name stages micro_batches chunks group digest")
    for stages in (1, 2, 3, 4, 5, 8):
        for micro_batches in range(stages, 5 * stages + 1):
            rounds = micro_batches // stages
            if micro_batches % rounds == 0:  # else PyTorch refuses
                for chunks in (2, 3, 4):
                    made = rows(schedules.ScheduleInterleaved1F1B, stages, micro_batches, chunks)
                    write("torch", "interleaved_1f1b", made, stages, micro_batches, chunks, micro_batches // rounds)
        for micro_batches in range(1, 5 * stages + 1):
            made = rows(schedules.ScheduleZBVZeroBubble, stages, micro_batches, 2)
            write("torch", "zero_bubble_v", made, stages, micro_batches, 2)
        for micro_batches in range(2 * stages, 5 * stages + 1):
            made = rows(schedules.ScheduleDualPipeV, stages, micro_batches, 2)
            write("torch", "dualpipe_v", made, stages, micro_batches, 2)
        if stages == 1:
            continue  # Megatron-core has no pipeline then
        for micro_batches in range(stages, 5 * stages + 1):
            for group in range(stages, micro_batches + 1):
                if 0 < micro_batches % group < stages:  # Megatron-core refuses
                    continue
                for chunks in (2, 3):
                    for name, merged in (("interleaved_1f1b", False), ("merged_1f1b", True)):
                        if group % 3 == 0 or group == stages:
                            made = megatron_rows(stages, micro_batches, chunks, group, merged)
                            write("megatron", name, made, stages, micro_batches, chunks, group)


main()
