"""Writes transformers_reference.npz: logits of GPT-2 and Llama in Hugging Face transformers, weights by `formula.py`.

Run with PyTorch 2.14 and transformers 5.23 installed. The numbers are their output; no data of others is involved.
Rotary positions and RMSNorm are float64 in float64 models here, float32 in transformers.
"""

from functools import partial
from pathlib import Path

import numpy as np
import torch
from formula import numbers, weight
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

VOCABULARY, TOKENS = 23, 13


def gpt2(dtype):
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=16,
            n_embd=24,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    ).to(dtype)
    arrays = [model.transformer.wte.weight, model.transformer.wpe.weight]
    for block in model.transformer.h:
        w, b = block.attn.c_attn.weight, block.attn.c_attn.bias  # (in, out), as ours: queries, keys and values
        arrays += [block.ln_1.weight, block.ln_1.bias]
        for k in range(3):
            arrays += [w[:, 24 * k : 24 * (k + 1)], b[24 * k : 24 * (k + 1)]]
        for layer in (block.attn.c_proj, block.ln_2, block.mlp.c_fc, block.mlp.c_proj):
            arrays += [layer.weight, layer.bias]
    return model, [*arrays, model.transformer.ln_f.weight, model.transformer.ln_f.bias]


def llama(dtype):
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
        rms_norm_eps=1e-6,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).to(dtype)
    arrays = [model.model.embed_tokens.weight]
    for block in model.model.layers:
        attention, feed = block.self_attn, block.mlp
        arrays += [
            block.input_layernorm.weight,
            attention.q_proj.weight.T,
            attention.k_proj.weight.T,
            attention.v_proj.weight.T,
            attention.o_proj.weight.T,
            block.post_attention_layernorm.weight,
            feed.up_proj.weight.T,
            feed.down_proj.weight.T,
            feed.gate_proj.weight.T,
        ]
    return model, [*arrays, model.model.norm.weight, model.lm_head.weight.T]


def angles(x, position_ids, *_, **__):
    rates = 10_000.0 ** (-torch.arange(3, dtype=x.dtype) / 3)
    angle = (position_ids[..., None].to(x.dtype) * rates).repeat(1, 1, 2)
    return angle.cos(), angle.sin()


tokens = ((numbers((2, TOKENS), 7) + 1) / 2 * VOCABULARY).astype(np.int64)
out = {"tokens": tokens}
for name, make in (("gpt2", gpt2), ("llama", llama)):
    for dtype in (torch.float32, torch.float64):
        model, arrays = make(dtype)
        with torch.no_grad():
            for seed, a in enumerate(arrays):
                a.copy_(torch.from_numpy(weight(tuple(a.shape), seed)))
        if (name, dtype) == ("llama", torch.float64):
            model.model.rotary_emb.forward = angles
            for module in model.modules():
                if isinstance(module, LlamaRMSNorm):
                    module.forward = partial(
                        functional.rms_norm, normalized_shape=(24,), weight=module.weight, eps=1e-6
                    )
        model.eval()
        with torch.no_grad():
            out[f"{name}_{str(dtype).split('.')[1]}"] = model(torch.from_numpy(tokens)).logits.numpy()
np.savez_compressed(Path(__file__).with_name("transformers_reference.npz"), **out)
