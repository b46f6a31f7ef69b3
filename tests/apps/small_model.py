"""A model small enough for tests of whole runs: a dense layer first, then layers of eight experts, two a token."""


def small_model(vocab_size, num_layers):
    """Its tables in a run's file. The router's comes last: further keys of it may follow."""
    return f"""[model]
vocab_size = {vocab_size}
hidden = 32
num_layers = {num_layers}
num_dense_layers = 1
dense_ffn = 48
[model.attention]
num_heads = 4
num_kv_heads = 2
head_dim = 8
[model.moe]
num_experts = 8
expert_ffn = 16
[model.moe.router]
top_k = 2
"""
