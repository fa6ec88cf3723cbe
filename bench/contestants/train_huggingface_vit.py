"""Hugging Face's ViT of the same size, in a hand-written loop; `autocast`: in bfloat16."""

from contextlib import nullcontext

import torch
from loop import train
from protocol import OPTIONS, batches
from transformers import ViTConfig, ViTForImageClassification


def build():
    size, picture = OPTIONS["size"], OPTIONS["picture"]
    config = ViTConfig(
        image_size=picture["side"],
        patch_size=picture["patch"],
        num_channels=picture["channels"],
        hidden_size=size["dim"],
        num_hidden_layers=size["layers"],
        num_attention_heads=size["heads"],
        intermediate_size=size["feedforward"],
        hidden_act="gelu",
        hidden_dropout_prob=size["dropout"],
        attention_probs_dropout_prob=0.0,  # regard has none
        num_labels=picture["labels"],
    )
    return ViTForImageClassification(config).train()


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    model = build()
    narrow = bool(OPTIONS.get("autocast"))
    made = [{n: torch.from_numpy(a) for n, a in batch.items()} for batch in batches()]

    def loss(batch):
        with torch.autocast("cpu", torch.bfloat16) if narrow else nullcontext():
            return model(pixel_values=batch["source"], labels=batch["labels"]).loss

    precision = "bfloat16" if narrow else "float32"
    train(model, made, loss, lambda batch: len(batch["labels"]), precision=precision)


main()
