"""Hugging Face's MarianMT and a hand-written loop, for the contestants that train it."""

import itertools

import torch
from protocol import OPTIONS, batches
from transformers import MarianConfig, MarianMTModel


def build():
    size = OPTIONS["size"]
    return MarianMTModel(
        MarianConfig(
            vocab_size=OPTIONS["symbols"],
            d_model=size["dim"],
            encoder_layers=size["layers"],
            decoder_layers=size["layers"],
            encoder_attention_heads=size["heads"],
            decoder_attention_heads=size["heads"],
            encoder_ffn_dim=size["feedforward"],
            decoder_ffn_dim=size["feedforward"],
            dropout=size["dropout"],
            attention_dropout=0.0,
            activation_dropout=0.0,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=0,
            eos_token_id=2,
            decoder_start_token_id=1,
            max_position_embeddings=1024,
            use_cache=False,
        )
    ).train()


class Trainer:
    """A model, its optimizer, and a function that gives the loss of a batch."""

    def __init__(self):
        self.model = build()
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True
        )

    def size(self):
        return sum(p.numel() for p in self.model.parameters())

    def loss(self, source, source_mask, target_in, target_out, target_mask):
        logits = self.model(
            input_ids=source, attention_mask=source_mask.long(), decoder_input_ids=target_in
        ).logits
        targets = target_out.masked_fill(~target_mask, -100)
        return torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1
        )

    def rounds(self, data, loss):
        """A function that trains on the next batches, and counts their target tokens."""
        endless = itertools.cycle(data)

        def work():
            counted = 0
            for batch in itertools.islice(endless, OPTIONS["updates"]):
                loss(**batch).backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                counted += int(batch["target_mask"].sum())
            return counted

        return work


def data():
    """The batches that every contestant trains on."""
    return [{name: torch.from_numpy(array) for name, array in batch.items()} for batch in batches()]
