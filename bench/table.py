"""How results are shown."""

import statistics
from typing import Any

from bench.peers import Peer


def compare(peers: list[Peer], unit: str) -> dict[str, Any]:
    """Print best and median of each contestant, and how many times as fast the first one is."""
    first = peers[0]
    print(f"\n{'':>16}  {'best':>12}  {'median':>12}  {'CPU s':>8}  {'MB':>7}  ratio   ({unit})")
    ratios: dict[str, float] = {}
    figures: dict[str, Any] = {}
    for peer in peers:
        rates = peer.rates()
        ratio = max(first.rates()) / max(rates)
        cpu = sum(r["cpu_seconds"] for r in peer.rounds)
        memory = max(r["peak_megabytes"] for r in peer.rounds)
        print(
            f"{peer.name:>16}  {max(rates):12,.1f}  {statistics.median(rates):12,.1f}  "
            f"{cpu:8.1f}  {memory:7,.0f}  {ratio:5.2f}"
        )
        figures[peer.name] = {
            "best": max(rates),
            "median": statistics.median(rates),
            "rounds": len(rates),
            "cpu_seconds": cpu,
            "peak_megabytes": memory,
            **peer.ready.get("ready", {}),
        }
        if peer is not first:
            ratios[peer.name] = round(ratio, 3)
    return {"unit": unit, "ratio": ratios, "figures": figures}
