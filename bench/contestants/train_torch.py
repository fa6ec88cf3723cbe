"""torch.nn.Transformer of the same size, in a hand-written loop."""

import itertools
import math

import torch
from protocol import OPTIONS, batches, serve
from torch import nn

from regard.layers.position import sinusoid


class Translator(nn.Module):
    def __init__(self, symbols, dim, layers, heads, feedforward, dropout):
        super().__init__()
        self.embedding = nn.Embedding(symbols, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)
        self.register_buffer("table", sinusoid(1024, dim))
        self.dropout = nn.Dropout(dropout)
        self.body = nn.Transformer(
            dim, heads, layers, layers, feedforward, dropout, batch_first=True, norm_first=True
        )
        for name, module in self.body.named_modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0  # as in the paper, and as the others have it
            del name
        self.scale = math.sqrt(dim)

    def embed(self, symbols):
        return self.dropout(self.embedding(symbols) * self.scale + self.table[: symbols.shape[1]])

    def forward(self, source, source_mask, target):
        length = target.shape[1]
        hidden = self.body(
            self.embed(source),
            self.embed(target),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(length),
            src_key_padding_mask=~source_mask,
            memory_key_padding_mask=~source_mask,
            tgt_is_causal=True,
        )
        return hidden @ self.embedding.weight.t()


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    model = Translator(OPTIONS["symbols"], **OPTIONS["size"]).train()
    steps = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    data = itertools.cycle(
        [{name: torch.from_numpy(array) for name, array in batch.items()} for batch in batches()]
    )

    def work():
        counted = 0
        for batch in itertools.islice(data, OPTIONS["updates"]):
            logits = model(batch["source"], batch["source_mask"], batch["target_in"])
            targets = batch["target_out"].masked_fill(~batch["target_mask"], -100)
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1
            )
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            steps.step()
            steps.zero_grad(set_to_none=True)
            counted += int(batch["target_mask"].sum())
        return counted

    serve(work, parameters=sum(p.numel() for p in model.parameters()))


main()
