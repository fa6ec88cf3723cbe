"""Hugging Face's MarianMT of the same size, in a hand-written loop."""

import torch
from marian import Trainer, data
from protocol import OPTIONS, serve


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    trainer = Trainer()
    serve(trainer.rounds(data(), trainer.loss), parameters=trainer.size(), precision="float32")


main()
