#!/usr/bin/env python3
"""Writes tests/golden/pipeline_schedules.txt: the schedules that PyTorch's own generators make.

    pip install torch                      # the CPU is enough
    tools/make_schedule_goldens.py > tests/golden/pipeline_schedules.txt

A line for each schedule: its name here, stages (PyTorch's ranks), micro-batches, chunks of a stage, and a digest of its rows as
PyTorch writes them to CSV ("compute_only"), without the empty cells that pad them. Small ones are spelled out below their line.
The digest is FNV-1a (64 bits) over the rows, each with a line break.
"""
import sys

import torch
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


def write(name, kind, stages, micro_batches, chunks):
    made = rows(kind, stages, micro_batches, chunks)
    print(f"schedule {name} {stages} {micro_batches} {chunks} {digest(''.join(row + chr(10) for row in made))}")
    if stages <= 3 and micro_batches <= 6:
        for row in made:
            print(row)


def main():
    print(f"# {sys.argv[0].split('/')[-1]}, torch {torch.__version__.split('+')[0]}")
    print("# schedule name stages micro_batches chunks digest")
    for stages in (1, 2, 3, 4, 5, 8):
        for micro_batches in range(stages, 5 * stages + 1):
            rounds = micro_batches // stages
            if micro_batches % rounds == 0:  # else PyTorch refuses
                for chunks in (2, 3, 4):
                    write("interleaved_1f1b", schedules.ScheduleInterleaved1F1B, stages, micro_batches, chunks)
        for micro_batches in range(1, 5 * stages + 1):
            write("zero_bubble_v", schedules.ScheduleZBVZeroBubble, stages, micro_batches, 2)
        for micro_batches in range(2 * stages, 5 * stages + 1):
            write("dualpipe_v", schedules.ScheduleDualPipeV, stages, micro_batches, 2)


main()
