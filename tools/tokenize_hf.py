#!/usr/bin/env python3
"""Text to Megatron .bin/.idx token files with a Hugging Face tokenizer.

    pip install tokenizers
    tools/tokenize_hf.py --tokenizer tokenizer.json --input a.txt b.jsonl --out data/mine

--tokenizer is a tokenizer.json, or a folder that holds one. Writes OUT_train.{bin,idx,meta.json} and, unless
--valid-fraction is 0, OUT_valid.*: what `trireme data` writes, for [data] in RUN.toml. Documents are lines of
JSON (.jsonl, field --json-key) or, in other files, what blank lines separate. Which side of the split a document goes
to depends on its text only.
"""
import argparse
import hashlib
import json
import os
import struct
import sys
import time
from array import array
from pathlib import Path

UINT16, INT32 = 8, 4  # type codes of the index


def read_documents(path, json_key):
    with open(path, encoding="utf-8", errors="replace", newline="") as lines:
        if path.suffix == ".jsonl":
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    yield json.loads(line)[json_key]
                except (ValueError, KeyError, TypeError) as error:
                    sys.exit(f"{path}:{number}: no JSON object with a string {json_key!r} ({error})")
            return
        document = []
        for line in lines:
            if line.strip():
                document.append(line)
            elif document:
                yield "".join(document).rstrip("\r\n")
                document = []
        if document:
            yield "".join(document).rstrip("\r\n")


def is_for_validation(text, fraction):
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64 < fraction


class TokenWriter:
    """Both files are written beside their names and renamed at the end, the index last."""

    def __init__(self, prefix, vocab_size):
        self.prefix, self.code = prefix, UINT16 if vocab_size <= 65536 else INT32
        self.width = 2 if self.code == UINT16 else 4
        self.bin = open(f"{prefix}.bin.tmp", "wb")
        self.lengths, self.num_tokens, self.max_token = array("i"), 0, -1

    def add(self, ids):
        tokens = array("H" if self.code == UINT16 else "i", ids)
        if sys.byteorder == "big":
            tokens.byteswap()
        self.bin.write(tokens.tobytes())
        self.lengths.append(len(ids))
        self.num_tokens += len(ids)
        self.max_token = max(self.max_token, max(ids, default=-1))

    def finish(self, meta):
        self.bin.close()
        count = len(self.lengths)
        with open(f"{self.prefix}.idx.tmp", "wb") as idx:
            idx.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, self.code, count, count + 1))
            idx.write(struct.pack(f"<{count}i", *self.lengths))
            pointer = 0
            for length in self.lengths:
                idx.write(struct.pack("<q", pointer))
                pointer += length * self.width
            idx.write(struct.pack(f"<{count + 1}q", *range(count + 1)))
        meta.update(num_documents=count, num_tokens=self.num_tokens, max_token=self.max_token,
                    bin_bytes=self.num_tokens * self.width)
        with open(f"{self.prefix}.meta.json.tmp", "w", encoding="utf-8") as out:
            json.dump(meta, out, indent=2)
        for ending in ("bin", "meta.json", "idx"):
            os.replace(f"{self.prefix}.{ending}.tmp", f"{self.prefix}.{ending}")


def find_eos(tokenizer, named):
    for name in [named] if named else ["<|endoftext|>", "</s>", "<eos>", "<|end_of_text|>", "<|im_end|>"]:
        token = tokenizer.token_to_id(name)
        if token is not None:
            return token
    sys.exit("no end-of-text token found in the tokenizer: name it with --eos")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, type=Path)
    parser.add_argument("--input", required=True, nargs="+", type=Path)
    parser.add_argument("--out", dest="output", required=True, help="prefix of the files")
    parser.add_argument("--eos", help="end-of-text token, by its text")
    parser.add_argument("--valid-fraction", type=float, default=0.01)
    parser.add_argument("--json-key", default="text")
    options = parser.parse_args()
    try:
        from tokenizers import Tokenizer
    except ImportError:
        sys.exit("the package `tokenizers` is missing: pip install tokenizers")
    file = options.tokenizer / "tokenizer.json" if options.tokenizer.is_dir() else options.tokenizer
    for path in [file, *options.input]:
        if not path.is_file():
            sys.exit(f"{path}: no such file")
    if not 0 <= options.valid_fraction < 1:
        sys.exit("--valid-fraction must lie in [0, 1)")

    tokenizer = Tokenizer.from_file(str(file))
    vocab_size = tokenizer.get_vocab_size(with_added_tokens=True)
    eos = find_eos(tokenizer, options.eos)
    Path(options.output).parent.mkdir(parents=True, exist_ok=True)
    writers = {"train": TokenWriter(f"{options.output}_train", vocab_size)}
    if options.valid_fraction > 0:
        writers["valid"] = TokenWriter(f"{options.output}_valid", vocab_size)

    start, shown = time.monotonic(), 0.0

    def take(batch):
        for text, encoding in zip(batch, tokenizer.encode_batch(batch, add_special_tokens=False)):
            valid = "valid" in writers and is_for_validation(text, options.valid_fraction)
            writers["valid" if valid else "train"].add(encoding.ids + [eos])

    for path in options.input:
        batch = []
        for text in read_documents(path, options.json_key):
            batch.append(text)
            if len(batch) == 1000:
                take(batch)
                batch = []
                if time.monotonic() - shown > 1:
                    shown = time.monotonic()
                    tokens = sum(w.num_tokens for w in writers.values())
                    print(f"{path.name}: {tokens:,} tokens, {tokens / (shown - start):,.0f}/s", file=sys.stderr)
        take(batch)

    for side, writer in writers.items():
        if not writer.lengths:
            sys.exit(f"no document for {side}: change --valid-fraction")
    for side, writer in writers.items():
        writer.finish({"tokenizer": "huggingface", "tokenizer_file": f"{Path(options.output).name}.tokenizer.json",
                       "vocab_size": vocab_size, "eos": eos, "sources": [p.name for p in options.input]})
        print(f"{writer.prefix}: {len(writer.lengths):,} documents, {writer.num_tokens:,} tokens")
    tokenizer.save(f"{options.output}.tokenizer.json")
    print(f"model.vocab_size must be at least {vocab_size}")


if __name__ == "__main__":
    main()
