"""transformers' Qwen3-MoE trained from scratch in float32. --experts eager, grouped_mm or batched_mm."""
import torch
import transformers

from shapes import COMMON, SHAPES, arguments, measure


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    shape = SHAPES[args.shape]
    config = transformers.Qwen3MoeConfig(
        vocab_size=shape["vocab"], hidden_size=COMMON["hidden"], intermediate_size=shape["width"],
        num_hidden_layers=COMMON["layers"], num_attention_heads=COMMON["heads"],
        num_key_value_heads=COMMON["kv_heads"], head_dim=COMMON["head_dim"], num_experts=shape["experts"],
        num_experts_per_tok=shape["top_k"], moe_intermediate_size=shape["width"], norm_topk_prob=True,
        tie_word_embeddings=False, use_cache=False, max_position_embeddings=COMMON["sequence"],
        output_router_logits=False)
    config._attn_implementation = "sdpa"
    config._experts_implementation = args.experts
    model = transformers.Qwen3MoeForCausalLM(config).float().train()
    if model.config._experts_implementation != args.experts:
        raise SystemExit(f"transformers took {model.config._experts_implementation} instead of {args.experts}")
    measure(args, f"transformers {transformers.__version__} {args.experts}", model,
            lambda m, tokens: m(input_ids=tokens, use_cache=False).logits)


if __name__ == "__main__":
    main()
