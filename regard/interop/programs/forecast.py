"""Forecast what follows a series: python -X utf8 run.py < series.csv"""

import csv
import sys
from pathlib import Path

from onnxruntime import InferenceSession

model = InferenceSession(Path(__file__).with_name("model.onnx"))
lines = sys.stdin.readlines()
rows = [*csv.DictReader(lines, delimiter=max(",;\t", key=lines[0].count))]
past = {each.name: [float(row[each.name]) for row in rows] for each in model.get_inputs()}
columns, forecast = model.run(None, past)
table = csv.writer(sys.stdout, lineterminator="\n")
table.writerow(["step", *columns])
table.writerows([step, *(f"{x:.8g}" for x in row)] for step, row in enumerate(forecast, 1))
