"""Hugging Face's GPT-2 of the same size, in a hand-written loop."""

import itertools

import torch
from protocol import OPTIONS, batches, serve
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
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    made = [{n: torch.from_numpy(a) for n, a in batch.items()} for batch in batches()]
    endless = itertools.cycle(made)

    def work():
        counted = 0
        for batch in itertools.islice(endless, OPTIONS["updates"]):
            logits = model(input_ids=batch["target_in"]).logits
            loss = torch.nn.functional.cross_entropy
            loss(logits.flatten(0, 1), batch["target_out"].flatten()).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            counted += batch["target_out"].numel()
        return counted

    size = sum(p.numel() for p in model.parameters())
    serve(work, parameters=size, precision="float32")


main()
