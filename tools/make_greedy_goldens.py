#!/usr/bin/env python3
"""Writes tests/golden/greedy.json: what transformers' generate() gives for the models of tests/golden/*.safetensors,
always taking the likeliest token, in float64 and with its own cache of keys and values.

    pip install torch==2.13.0 transformers==5.24.0 safetensors
    python tools/make_greedy_goldens.py tests/golden

The weights are those of the goldens (tools/make_goldens.py, which says how they are stored). A run is kept only where
the best logit is ahead of the second by `MARGIN` at each token, so that rounding decides nothing.
"""
import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors import safe_open

from make_goldens import UNIT, global_name, in_float64, pieces

MARGIN = 1e-4
NEW_TOKENS = 40


def load(path):
    kind = "mixtral" if path.stem == "mixtral" else "qwen3_moe"
    module = in_float64(f"transformers.models.{kind}.modeling_{kind}")
    name = {"mixtral": "Mixtral", "qwen3_moe": "Qwen3Moe"}[kind]
    torch.set_default_dtype(torch.float64)
    with safe_open(path, "pt") as golden:
        config = getattr(transformers, name + "Config")(**json.loads(golden.metadata()["config"]))
        config._attn_implementation = config._experts_implementation = "eager"
        config.use_cache = True
        model = getattr(module, name + "ForCausalLM")(config).double().eval()
        with torch.no_grad():
            for hf_name, p in model.named_parameters():
                flat = p.dim() == 1 and "bias" not in hf_name
                for ours, part in pieces(global_name(hf_name, config.num_hidden_layers), p):
                    part.copy_(golden.get_tensor(ours).double() * UNIT + (1.0 if flat else 0.0))
    return model


def main():
    folder = Path(sys.argv[1])
    generator = torch.Generator().manual_seed(5)
    out = {}
    for path in sorted(folder.glob("*.safetensors")):
        model = load(path)
        runs = []
        while len(runs) < 3:
            prompt = torch.randint(0, model.config.vocab_size, (1, 4 + 5 * len(runs)), generator=generator)
            result = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW_TOKENS,
                                    do_sample=False, output_logits=True, return_dict_in_generate=True)
            best = torch.stack(result.logits).topk(2, dim=-1).values
            if (best[..., 0] - best[..., 1]).min() < MARGIN:
                continue
            runs.append({"prompt": prompt[0].tolist(), "tokens": result.sequences[0, prompt.shape[1]:].tolist()})
        out[path.stem] = runs
    text = json.dumps({"transformers": transformers.__version__, "torch": torch.__version__, "models": out})
    (folder / "greedy.json").write_text(text.replace('{"prompt"', '\n{"prompt"') + "\n")


if __name__ == "__main__":
    main()
