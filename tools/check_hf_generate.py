#!/usr/bin/env python3
"""Prints the tokens that transformers gives behind a prompt, always taking the likeliest one, to compare with

    trireme generate FOLDER --prompt-ids 1,5,7 --max-tokens 20 --temperature 0 --dtype float64 --json

    tools/check_hf_generate.py FOLDER --tokens 1 5 7 [--new-tokens 20] [--dtype float64]

Output: {"tokens": [...], "margin": the least distance of a best logit from the second, "transformers": "5.x"}.
Needs torch and transformers.
"""
import argparse
import json

import torch
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--tokens", type=int, nargs="+", required=True)
    parser.add_argument("--new-tokens", type=int, default=20)
    parser.add_argument("--dtype", default="float64", choices=["float32", "float64", "bfloat16"])
    arguments = parser.parse_args()

    transformers.utils.logging.set_verbosity_error()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        arguments.folder, torch_dtype=getattr(torch, arguments.dtype), attn_implementation="eager")
    if hasattr(model, "set_experts_implementation"):  # transformers 5: its default has no float64
        model.set_experts_implementation("eager")
    model.eval()
    prompt = torch.tensor([arguments.tokens])
    out = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=arguments.new_tokens, do_sample=False,
                         eos_token_id=None, output_logits=True, return_dict_in_generate=True)
    best = torch.stack(out.logits).double().topk(2, dim=-1).values
    print(json.dumps({"tokens": out.sequences[0, prompt.shape[1]:].tolist(),
                      "margin": (best[..., 0] - best[..., 1]).min().item(),
                      "transformers": transformers.__version__}))


if __name__ == "__main__":
    main()
