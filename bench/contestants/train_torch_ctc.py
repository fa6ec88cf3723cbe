"""The same convolutions, torch.nn.LSTM and torch's CTC loss, in a hand-written loop."""

import itertools

import torch
from protocol import OPTIONS, batches, serve
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Listener(nn.Module):
    """Two convolutions of stride 2, an LSTM in both directions, and outputs with a blank."""

    def __init__(self, settings, sizes):
        super().__init__()
        dim, channels = settings["dim"], settings["input"]["channels"]
        encoder, bands = settings["encoder"], sizes["source"]["mels"]
        self.first = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.fold = nn.Linear(channels * ((bands + 3) // 4), dim)
        self.lstm = nn.LSTM(
            dim,
            dim,
            encoder["layers"],
            batch_first=True,
            dropout=encoder["dropout"],
            bidirectional=True,
        )
        self.dropout = nn.Dropout(encoder["dropout"])
        self.inner = nn.Linear(2 * dim, dim)
        self.project = nn.Linear(dim, sizes["target"]["outputs"])

    def forward(self, batch):
        x = batch["source"][:, None]
        x = torch.relu(self.second(torch.relu(self.first(x))))
        x = self.dropout(self.fold(x.transpose(1, 2).flatten(2)))
        lengths = (batch["source_mask"].sum(1) + 3) // 4
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        logits = self.project(self.inner(self.dropout(states)))
        targets, sizes = batch["target_in"][:, 1:], batch["target_mask"].sum(1) - 1
        return nn.functional.ctc_loss(
            logits.log_softmax(-1).transpose(0, 1), targets, lengths, sizes, zero_infinity=True
        )


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    model = Listener(OPTIONS["recipe"]["model"], OPTIONS["sizes"]["fields"])
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
