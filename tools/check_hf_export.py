#!/usr/bin/env python3
"""Loads an exported folder with transformers and prints what it does as JSON, to compare with Trireme's.

    tools/check_hf_export.py FOLDER --tokens 1 5 7 [--dtype float64] [--save FOLDER]
    tools/check_hf_export.py FOLDER --text "Once upon" [--text ...] [--text-file FILE] [--new-tokens 20]

With --tokens: {"logits": [[...vocabulary...], ...one row a token...]}. With --text or --text-file: {"tokenizer": class, "ids":
[[...], ...one list a text...], "decoded": [...], "generated": "..."}, the last by generate() from the
first text. Always: "parameters", "transformers", "config" (what AutoConfig read).
With --save, transformers also writes the model (and with --text the tokenizer) again, for the way back.
Needs torch and transformers; exit code 1 where weights are missing or left over.
"""
import argparse
import json
import pathlib
import sys

import torch
import transformers


def read_text(arguments, model, result):
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.folder)
    texts = [*arguments.text, *(pathlib.Path(f).read_bytes().decode() for f in arguments.text_file)]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    result["tokenizer"] = type(tokenizer).__name__
    result["ids"] = ids
    result["decoded"] = [tokenizer.decode(i) for i in ids]
    result["special"] = {name: getattr(tokenizer, f"{name}_token_id") for name in ("eos", "bos", "pad")}
    result["vocab_size"] = len(tokenizer)
    # As a caller does it: the tensors that the tokenizer gives go into generate().
    inputs = tokenizer(texts[0], return_tensors="pt", return_token_type_ids=False)
    made = model.generate(**inputs, max_new_tokens=arguments.new_tokens, do_sample=False)
    result["generated_ids"] = made[0].tolist()
    result["generated"] = tokenizer.decode(made[0], skip_special_tokens=True)
    if arguments.save:
        tokenizer.save_pretrained(arguments.save)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--tokens", type=int, nargs="+")
    parser.add_argument("--text", action="append", default=[])
    parser.add_argument("--text-file", action="append", default=[])
    parser.add_argument("--new-tokens", type=int, default=20)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "bfloat16"])
    parser.add_argument("--save", help="folder that transformers saves the model to")
    arguments = parser.parse_args()
    if not (arguments.tokens or arguments.text or arguments.text_file):
        parser.error("give --tokens, --text or --text-file")

    transformers.utils.logging.set_verbosity_error()
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        arguments.folder,
        torch_dtype=getattr(torch, arguments.dtype),
        attn_implementation="eager",
        output_loading_info=True,
    )
    wrong = {kind: sorted(map(str, report[kind])) for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") if report[kind]}
    if wrong:
        print(json.dumps(wrong), file=sys.stderr)
        return 1
    if hasattr(model, "set_experts_implementation"):  # transformers 5: its default has no float64
        model.set_experts_implementation("eager")
    model.eval()
    result = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "transformers": transformers.__version__,
        "config": model.config.to_dict(),
    }
    with torch.no_grad():
        if arguments.tokens:
            result["logits"] = model(torch.tensor([arguments.tokens])).logits[0].double().tolist()
        if arguments.text or arguments.text_file:
            read_text(arguments, model, result)
    if arguments.save:
        model.save_pretrained(arguments.save)
    json.dump(result, sys.stdout, default=str)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
