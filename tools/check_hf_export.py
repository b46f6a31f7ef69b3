#!/usr/bin/env python3
"""Loads an exported folder with transformers and prints its logits as JSON, to compare with Trireme's.

    tools/check_hf_export.py FOLDER --tokens 1 5 7 [--dtype float64] [--save FOLDER]

Output: {"logits": [[...vocabulary...], ...one row a token...], "parameters": N, "transformers": "5.x"}.
With --save, transformers also writes the model again, for the way back.
Needs torch and transformers; exit code 1 where weights are missing or left over.
"""
import argparse
import json
import sys

import torch
import transformers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--tokens", type=int, nargs="+", required=True)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "bfloat16"])
    parser.add_argument("--save", help="folder that transformers saves the model to")
    arguments = parser.parse_args()

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
    with torch.no_grad():
        logits = model(torch.tensor([arguments.tokens])).logits[0]
    if arguments.save:
        model.save_pretrained(arguments.save)
    result = {
        "logits": logits.double().tolist(),
        "parameters": sum(p.numel() for p in model.parameters()),
        "transformers": transformers.__version__,
    }
    json.dump(result, sys.stdout)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
