"""torch.nn.LSTM of the same size, in a hand-written loop; rows packed, or padded as they are."""

import itertools

import torch
from protocol import OPTIONS, batches, serve
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Reader(nn.Module):
    """Embedding, dropout and an LSTM."""

    def __init__(self, symbols, dim, layers, dropout, both):
        super().__init__()
        self.embedding = nn.Embedding(symbols, dim)
        inner = dropout if layers > 1 else 0.0
        self.lstm = nn.LSTM(dim, dim, layers, batch_first=True, dropout=inner, bidirectional=both)
        self.dropout = nn.Dropout(dropout)

    def forward(self, symbols, mask):
        x = self.dropout(self.embedding(symbols))
        if not OPTIONS["packed"]:
            return self.dropout(self.lstm(x)[0])
        lengths = mask.sum(1)
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.dropout(y)


class LanguageModel(nn.Module):
    def __init__(self, dim, sizes, settings):
        super().__init__()
        symbols = sizes["target"]["tokens"]
        self.reader = Reader(symbols, dim, settings["layers"], settings["dropout"], False)
        self.project = nn.Linear(dim, symbols)

    def forward(self, batch):
        logits = self.project(self.reader(batch["target_in"], batch["target_mask"]))
        targets = batch["target_out"].masked_fill(~batch["target_mask"], -100)
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Classifier(nn.Module):
    """The maximum over all positions of both directions, and a projection in between."""

    def __init__(self, dim, sizes, settings):
        super().__init__()
        self.reader = Reader(
            sizes["source"]["tokens"], dim, settings["layers"], settings["dropout"], True
        )
        self.inner = nn.Linear(2 * dim, dim)
        self.dropout = nn.Dropout(settings["dropout"])
        self.project = nn.Linear(dim, sizes["labels"]["outputs"])

    def forward(self, batch):
        states = self.inner(self.reader(batch["source"], batch["source_mask"]))
        states = states.masked_fill(~batch["source_mask"][..., None], -torch.inf)
        logits = self.project(self.dropout(states.amax(1)))
        return nn.functional.cross_entropy(logits, batch["labels"])


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    given = OPTIONS["recipe"]["model"]
    kind = LanguageModel if "decoder" in given else Classifier
    settings, sizes = given.get("decoder", given.get("encoder")), OPTIONS["sizes"]["fields"]
    model = kind(given["dim"], sizes, settings)
    steps = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    data = itertools.cycle(
        [{name: torch.from_numpy(array) for name, array in batch.items()} for batch in batches()]
    )

    def work():
        counted = 0
        for batch in itertools.islice(data, OPTIONS["updates"]):
            loss = model(batch)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            steps.step()
            steps.zero_grad(set_to_none=True)
            counted += int(batch[OPTIONS["counted"]].sum())
        return counted

    serve(work, parameters=sum(p.numel() for p in model.parameters()))


main()
