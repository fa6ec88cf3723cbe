"""How results are shown."""

import statistics
from typing import Any

from bench.peers import Peer, Race


def compare(race: Race, unit: str) -> dict[str, Any]:
    """Print best and median of each contestant, and how many times as fast the first one is.

    `by CPU` compares processor time, which a busy machine disturbs less.
    """
    peers, first = race.peers, race.peers[0]
    wide = max(16, *(len(peer.name) for peer in peers))
    head = f"{'best':>12}  {'median':>12}  {'CPU s':>8}  {'MB':>7}  {'ratio':>6}  {'by CPU':>6}"
    print(f"\n{'':>{wide}}  {head}   ({unit})")
    result: dict[str, Any] = {"unit": unit, "ratio": {}, "ratio_cpu": {}, "figures": {}}
    for peer in peers:
        rates = peer.rates()
        best, median, cpu = max(rates), statistics.median(rates), cpu_seconds(peer)
        memory = max(r["peak_megabytes"] for r in peer.rounds)
        ratio, by_cpu = max(first.rates()) / best, per_token(peer) / per_token(first)
        print(
            f"{peer.name:>{wide}}  {best:12,.1f}  {median:12,.1f}  "
            f"{cpu:8.1f}  {memory:7,.0f}  {ratio:6.2f}  {by_cpu:6.2f}"
        )
        result["figures"][peer.name] = {
            "best": best,
            "median": median,
            "rounds": len(rates),
            "cpu_seconds": cpu,
            "peak_megabytes": memory,
            **peer.ready.get("ready", {}),
        }
        if peer is not first:
            result["ratio"][peer.name] = round(ratio, 3)
            result["ratio_cpu"][peer.name] = round(by_cpu, 3)
    for name, reason in race.absent.items():
        print(f"{name:>{wide}}  did not take part: {reason}")
        result["ratio"][name] = None
    return result | {"absent": race.absent, "complete": race.complete}


def cpu_seconds(peer: Peer) -> float:
    return float(sum(r["cpu_seconds"] for r in peer.rounds))


def per_token(peer: Peer) -> float:
    """Processor time of the round that needed least."""
    return float(min(r["cpu_seconds"] / r["tokens"] for r in peer.rounds))
