"""Joey NMT of the same size: its model, its batch and its own trainer's step."""

import itertools
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
from joeynmt.batch import Batch
from joeynmt.config import _check_special_symbols, parse_train_args
from joeynmt.model import build_model
from joeynmt.training import TrainManager
from joeynmt.transformer_layers import MultiHeadedAttention
from joeynmt.vocabulary import Vocabulary
from protocol import OPTIONS, batches, serve

UNKNOWN, PAD, START, END = range(4)
OWN = (PAD, START, END, UNKNOWN)
"""Joey NMT's number for each of our first four tokens."""


def build():
    specials = SimpleNamespace(**_check_special_symbols({}))
    vocabulary = Vocabulary([f"s{n}" for n in range(4, OPTIONS["symbols"])], specials)
    size = OPTIONS["size"]
    stack = {
        "type": "transformer",
        "num_layers": size["layers"],
        "num_heads": size["heads"],
        "hidden_size": size["dim"],
        "ff_size": size["feedforward"],
        "dropout": size["dropout"],
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": size["dim"], "scale": True},
    }
    settings = {"encoder": stack, "decoder": stack, "tied_embeddings": True, "tied_softmax": True}
    model = build_model(settings, vocabulary, vocabulary)
    model.loss_function = ("crossentropy", 0.1)
    for module in model.modules():
        if isinstance(module, MultiHeadedAttention):
            module.dropout.p = 0.0  # as in the paper, and as the others have it
    return model


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    model = build()
    asked = {
        "normalization": "tokens",
        "label_smoothing": 0.1,
        "optimizer": "adam",
        "adam_betas": [0.9, 0.98],
        "learning_rate": 1e-4,
        "scheduling": "exponential",  # whose steps are epochs
        "clip_grad_norm": 1.0,
        "batch_size": 4096,
        "batch_type": "token",
    }
    cpu = torch.device("cpu")
    manager = TrainManager(
        rank=0,
        model=model,
        model_dir=Path(tempfile.mkdtemp()),
        device=cpu,
        autocast={"device_type": "cpu", "enabled": False},
        train_args=parse_train_args(asked),
    )
    renumbered = torch.arange(OPTIONS["symbols"])
    renumbered[:4] = torch.tensor(OWN)

    def prepared(arrays):
        source, read, said = (
            renumbered[torch.from_numpy(arrays[name])]
            for name in ("source", "target_in", "target_out")
        )
        lengths = (source != PAD).sum(1)
        target = torch.cat([read[:, :1], said], 1)
        rows = torch.arange(len(source))
        return Batch(source, lengths, None, target, None, rows, cpu, PAD, END)

    data = itertools.cycle([prepared(arrays) for arrays in batches()])

    def work():
        counted = 0
        for batch in itertools.islice(data, OPTIONS["updates"]):
            manager._train_step(batch)
            manager.clip_grad_fun(parameters=model.parameters())
            manager.optimizer.step()
            model.zero_grad()
            counted += batch.ntokens
        return counted

    serve(work, parameters=sum(p.numel() for p in model.parameters()))


main()
