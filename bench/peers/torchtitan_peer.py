"""torchtitan's Qwen3-MoE, built without its trainer and changed so that it runs in float32 on a CPU: --experts float32
(its grouped matmul without the casts to bfloat16) or loop (a matmul for each expert). Also changed: its SDPA module for
attention (what it selects has no CPU backward), and the device "cpu". The line's `software` says "float32 patch"."""
import importlib.metadata

import torch
import torch.nn.functional as F

from shapes import COMMON, SHAPES, arguments, measure


def patch_experts(how):
    from torchtitan.models.common.moe import GroupedExperts

    def grouped(self, rows, counts):
        ends = torch.cumsum(counts, dim=0, dtype=torch.int32)
        gate, down, up = (w.transpose(-2, -1) for w in (self.w1_EFD, self.w2_EDF, self.w3_EFD))
        active = F.silu(self._grouped_mm(A=rows, B_t=gate, offs=ends)) * self._grouped_mm(A=rows, B_t=up, offs=ends)
        return self._grouped_mm(A=active, B_t=down, offs=ends)

    def loop(self, rows, counts):
        parts = rows.split(counts.tolist())
        return torch.cat([F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)
                          for x, gate, down, up in zip(parts, self.w1_EFD, self.w2_EDF, self.w3_EFD)])

    GroupedExperts.forward = {"float32": grouped, "loop": loop}[how]


def build(shape):
    import torchtitan.tools.utils as device
    device.device_type, device.device_module = "cpu", torch.cpu
    from torchtitan.distributed.utils import set_spmd_backend
    set_spmd_backend("partial_dtensor")
    from torchtitan.models import qwen3
    from torchtitan.models.common import CosSinRoPE, Embedding, Linear
    from torchtitan.models.common.attention import ScaledDotProductAttention
    from torchtitan.models.qwen3.model import Qwen3Model
    qwen3.get_attention_config = lambda _: ScaledDotProductAttention.Config()
    layers = qwen3._build_qwen3_moe_layers(
        n_layers=COMMON["layers"], dim=COMMON["hidden"], n_heads=COMMON["heads"], n_kv_heads=COMMON["kv_heads"],
        head_dim=COMMON["head_dim"], moe_hidden_dim=shape["width"], num_experts=shape["experts"],
        top_k=shape["top_k"], fuse_qkv=True, attn_backend="sdpa", moe_comm_backend="standard",
        rope=CosSinRoPE.Config(dim=COMMON["head_dim"], max_seq_len=COMMON["sequence"], theta=COMMON["rope_theta"]))
    for layer in layers:
        layer.moe.load_balance_coeff = None
    config = Qwen3Model.Config(
        vocab_size=shape["vocab"], dim=COMMON["hidden"], norm=qwen3._qwen3_norm(COMMON["hidden"]),
        tok_embeddings=Embedding.Config(num_embeddings=shape["vocab"], embedding_dim=COMMON["hidden"],
                                        param_init=qwen3._EMBEDDING_INIT),
        lm_head=Linear.Config(in_features=COMMON["hidden"], out_features=shape["vocab"], param_init=qwen3._LINEAR_INIT),
        layers=layers)
    torch.manual_seed(1)
    model = config.build()
    with torch.no_grad():
        model.init_states(buffer_device=torch.device("cpu"))
    return model.train()


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    patch_experts(args.experts)
    version = importlib.metadata.version("torchtitan")
    measure(args, f"torchtitan {version} {args.experts} (float32 patch)", build(SHAPES[args.shape]),
            lambda model, tokens: model(tokens))


if __name__ == "__main__":
    main()
