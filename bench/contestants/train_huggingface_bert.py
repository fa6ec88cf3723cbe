"""Hugging Face's BERT of the same size, in a hand-written loop."""

import itertools

import torch
from protocol import OPTIONS, batches, serve
from transformers import BertConfig, BertForMaskedLM


def build():
    size = OPTIONS["size"]
    return BertForMaskedLM(
        BertConfig(
            vocab_size=OPTIONS["symbols"],
            max_position_embeddings=OPTIONS["length"],
            hidden_size=size["dim"],
            num_hidden_layers=size["layers"],
            num_attention_heads=size["heads"],
            intermediate_size=size["feedforward"],
            hidden_act="gelu",
            hidden_dropout_prob=size["dropout"],
            attention_probs_dropout_prob=0.0,  # regard has none
        )
    ).train()


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    made = []
    for batch in batches():
        tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
        labels = tensors["source_out"].masked_fill(~tensors["source_masked"], -100)
        made.append((tensors["source"], labels))
    endless = itertools.cycle(made)

    def work():
        counted = 0
        for tokens, labels in itertools.islice(endless, OPTIONS["updates"]):
            model(input_ids=tokens, labels=labels).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            counted += tokens.numel()
        return counted

    size = sum(p.numel() for p in model.parameters())
    serve(work, parameters=size, precision="float32")


main()
