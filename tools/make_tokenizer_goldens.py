#!/usr/bin/env python3
"""tests/golden/tokenizers/prefix_*.model and the numbers that tests/train/data_tokenizer_test.cpp expects of them.

    pip install sentencepiece==0.1.97 && tools/make_tokenizer_goldens.py

Both models put a space in front of a text and merge runs of spaces, as SentencePiece does where it is not told otherwise.
"""
import os
from pathlib import Path

import sentencepiece

FOLDER = Path(__file__).parent.parent / "tests" / "golden" / "tokenizers"
LINES = [f"the cat number {i} sat  on the mat, and the dog {i * 7 % 101} ran to the river" for i in range(400)]
TEXT = "".join(f"the cat number {i} sat  on the mat,\n and the dog ran \n\n" for i in range(2000))

os.chdir(FOLDER)  # a model keeps the path that it was written to
for kind in ("bpe", "unigram"):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES), model_prefix=f"prefix_{kind}", model_type=kind, vocab_size=90,
        normalization_rule_name="identity", hard_vocab_limit=False, minloglevel=2)
    os.unlink(f"prefix_{kind}.vocab")
    processor = sentencepiece.SentencePieceProcessor(model_file=f"prefix_{kind}.model")
    ids, digest = processor.encode(TEXT), 0
    for token in ids:
        digest = (digest * 31 + token) % 1000003
    print(f"{kind}: {len(TEXT)} bytes, {len(ids)} tokens, digest {digest}, {ids.count(processor.unk_id())} unknown")
    print("  of a, space, U+2581, cat, space, U+00E9:", processor.encode("a \u2581cat \u00e9"))
