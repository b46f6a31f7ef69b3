#!/usr/bin/env python3
"""Writes tests/golden/*.safetensors: logits, loss and every gradient of tiny models, computed by transformers in float64.

    pip install torch==2.13.0 transformers==5.24.0 safetensors
    python tools/make_goldens.py tests/golden

transformers computes norms, rotary angles and the router's softmax in float32 even in a float64 model. Trireme computes
them in max(float32, dtype), so the modeling files are run with those casts turned to float64 (`in_float64`).

A file holds the weights as int8 in units of 1/128 (norms: of their distance from 1), which every dtype represents
exactly, `tokens` and `targets` (int64), `logits` (float64), and `grad.NAME` (float64) of the mean cross-entropy for each
NAME of src/model/parameters.h. Its metadata holds the Hugging Face `config`, `loss`, and the transformers version.
"""
import importlib.util
import json
import re
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file

UNIT = 1.0 / 128.0


def in_float64(name):
    """The modeling module `name` of transformers, with its float32 casts made float64."""
    spec = importlib.util.find_spec(name)
    source = Path(spec.origin).read_text()
    source, casts = re.subn(r"torch\.float32\b|torch\.float\b(?!\d)", "torch.float64", source)
    source, calls = re.subn(r"\.float\(\)", ".double()", source)
    if casts < 3 or calls < 1:
        raise SystemExit(f"{name}: the casts to replace are gone ({casts}, {calls}); look at its source again")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    exec(compile(source, spec.origin, "exec"), module.__dict__)
    return module


def global_name(name, layers):
    """(pattern of our name, where to cut) for a Hugging Face parameter; fused experts are cut by the caller."""
    table = {
        "model.embed_tokens.weight": "embed.weight",
        "model.norm.weight": "final_norm.weight",
        "lm_head.weight": "head.weight",
        "input_layernorm.weight": "attention_norm.weight",
        "post_attention_layernorm.weight": "ffn_norm.weight",
        "mlp.gate.weight": "router.weight",
        "mlp.gate_proj.weight": "mlp.gate.weight",
        "mlp.up_proj.weight": "mlp.up.weight",
        "mlp.down_proj.weight": "mlp.down.weight",
    }
    for p in "qkvo":
        for kind in ("weight", "bias"):
            table[f"self_attn.{p}_proj.{kind}"] = f"attention.{p}.{kind}"
    for p in "qk":
        table[f"self_attn.{p}_norm.weight"] = f"attention.{p}_norm.weight"
    if name in table:
        return table[name]
    layer, rest = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", name).groups()
    if rest in ("mlp.experts.gate_up_proj", "mlp.experts.down_proj"):
        return f"layers.{layer}.experts.*.{'gate_up' if 'gate_up' in rest else 'down'}"
    return f"layers.{layer}.{table[rest]}"


def pieces(name, tensor):
    """Our named tensors in a Hugging Face one."""
    if ".experts.*." not in name:
        yield name, tensor
        return
    for e in range(tensor.shape[0]):
        stem = name.replace("*", str(e))
        if stem.endswith("gate_up"):
            half = tensor.shape[1] // 2
            yield stem.replace("gate_up", "gate.weight"), tensor[e, :half]
            yield stem.replace("gate_up", "up.weight"), tensor[e, half:]
        else:
            yield stem + ".weight", tensor[e]


def make(path, module, model_class, config, seed):
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    torch.set_default_dtype(torch.float64)
    model = getattr(module, model_class)(config).double()
    generator = torch.Generator().manual_seed(seed)
    stored = {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            steps = torch.randint(-40, 41, p.shape, generator=generator)
            flat = p.dim() == 1 and "bias" not in name
            p.copy_(steps * UNIT + (1.0 if flat else 0.0))
            for ours, part in pieces(global_name(name, config.num_hidden_layers), steps.to(torch.int8)):
                stored[ours] = part.contiguous()
    tokens = torch.randint(0, config.vocab_size, (2, 13), generator=generator)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    logits = model(input_ids=inputs, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    stored |= {"tokens": inputs, "targets": targets, "logits": logits.detach().flatten(0, 1).contiguous()}
    for name, p in model.named_parameters():
        for ours, part in pieces(global_name(name, config.num_hidden_layers), p.grad):
            stored["grad." + ours] = part.contiguous()
    metadata = {"config": json.dumps(config.to_dict()), "loss": repr(loss.item()),
                "transformers": transformers.__version__, "torch": torch.__version__}
    save_file(stored, path, metadata)
    print(f"{path}: loss {loss.item():.12f}, {path.stat().st_size / 1024:.0f} KiB")


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    shape = dict(vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 head_dim=8, max_position_embeddings=64, pad_token_id=None, bos_token_id=None, eos_token_id=None,
                 use_cache=False, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    mixtral = in_float64("transformers.models.mixtral.modeling_mixtral")
    make(folder / "mixtral.safetensors", mixtral, "MixtralForCausalLM",
         transformers.MixtralConfig(**shape, intermediate_size=37, num_local_experts=4, num_experts_per_tok=2,
                                    tie_word_embeddings=False), seed=1)
    qwen = in_float64("transformers.models.qwen3_moe.modeling_qwen3_moe")
    moe = dict(moe_intermediate_size=37, num_experts=4, num_experts_per_tok=3, decoder_sparse_step=1)
    make(folder / "qwen3_moe.safetensors", qwen, "Qwen3MoeForCausalLM",
         transformers.Qwen3MoeConfig(**shape, **moe, intermediate_size=37, norm_topk_prob=True, mlp_only_layers=[],
                                     tie_word_embeddings=False), seed=2)
    make(folder / "qwen3_moe_dense_first.safetensors", qwen, "Qwen3MoeForCausalLM",
         transformers.Qwen3MoeConfig(**shape, **moe, intermediate_size=41, norm_topk_prob=False, mlp_only_layers=[0],
                                     attention_bias=True, tie_word_embeddings=True), seed=3)


if __name__ == "__main__":
    main()
