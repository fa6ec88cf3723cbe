"""Hugging Face's GPT-2 of the same size, in a hand-written loop."""

import torch
from loop import train
from protocol import OPTIONS, batches
from transformers import GPT2Config, GPT2LMHeadModel


def build():
    size = OPTIONS["size"]
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=OPTIONS["symbols"],
            n_positions=OPTIONS["length"],
            n_embd=size["dim"],
            n_layer=size["layers"],
            n_head=size["heads"],
            n_inner=size["feedforward"],
            activation_function="gelu",
            resid_pdrop=size["dropout"],
            embd_pdrop=size["dropout"],
            attn_pdrop=0.0,  # regard has none
            use_cache=False,
        )
    ).train()


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    model = build()
    made = [{n: torch.from_numpy(a) for n, a in batch.items()} for batch in batches()]

    def loss(batch):
        logits = model(input_ids=batch["target_in"]).logits
        wanted = batch["target_out"].flatten()
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted)

    train(model, made, loss, lambda batch: batch["target_out"].numel())


main()
