"""Forecast what follows the series in a CSV file: python run.py < series.csv

It needs this folder, onnxruntime and numpy.
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession

folder = Path(__file__).parent
card = json.loads((folder / "regard.json").read_text(encoding="utf-8"))
noise = np.load(folder / "noise.npy", allow_pickle=False)  # of futures; the first has none
session = InferenceSession(str(folder / "model.onnx"))
names, back = card["variables"], card["look_back"]


def forecast(past):
    """Of the next steps the expected values, and their standard deviations."""
    pasts, futures = np.repeat(past[None, -back:], len(noise), 0), []
    for first in range(0, card["horizon"], card["block"]):
        mean, deviation = session.run(["mean", "deviation"], {"past": pasts})
        futures.append(mean + deviation * noise[:, first : first + card["block"]])
        pasts = np.concatenate([pasts, futures[-1]], 1)[:, -back:]
    futures = np.concatenate(futures, 1)[:, : card["horizon"]]
    if len(noise) == 1:
        return futures[0], deviation[0, : card["horizon"]]
    return futures[0], np.sqrt(np.mean((futures[1:] - futures[0]) ** 2, 0))


sys.stdin.reconfigure(encoding="utf-8-sig")
sys.stdout.reconfigure(encoding="utf-8")
lines = sys.stdin.read().splitlines()
between = card["delimiter"] or max(",;\t", key=lines[0].count)
rows = csv.DictReader(lines, delimiter=between)
values = np.array([[float(row[name]) for name in names] for row in rows])
mean, deviation = forecast(values)
half = card["reach"] * deviation
columns = np.stack([mean, mean - half, mean + half], 2).reshape(len(mean), -1)
said = csv.writer(sys.stdout, lineterminator="\n")
said.writerow(["step", *(name + end for name in names for end in ("", ".low", ".high"))])
said.writerows([n, *(f"{value:.8g}" for value in row)] for n, row in enumerate(columns, 1))
