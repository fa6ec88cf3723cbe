"""Hugging Face's BERT of the same size, in a hand-written loop."""

import torch
from loop import train
from protocol import OPTIONS, batches
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
    made = []
    for batch in batches():
        tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
        labels = tensors["source_out"].masked_fill(~tensors["source_masked"], -100)
        made.append((tensors["source"], labels))

    def loss(batch):
        return model(input_ids=batch[0], labels=batch[1]).loss

    train(model, made, loss, lambda batch: batch[0].numel())


main()
