"""How much to break: a sample in every test run, the whole with REGARD_FAULTS=full; and the counts.

A test asks `amount(quick, full)` how often to do harm, and tells `tally(name, number)` how much
was done and survived. The totals of the tests that passed are printed at the end.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

FULL = os.environ.get("REGARD_FAULTS") == "full"

Amount = Callable[[int, int], int]
Tally = Callable[[str, int], None]


@pytest.fixture(scope="session", autouse=True)
def heard() -> Iterator[None]:
    """A shell that starts the tests in the background, or `nohup`, lets them ignore signals that
    they send."""
    handlers: dict[str, Any] = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
    numbers = {getattr(signal, n): h for n, h in handlers.items() if hasattr(signal, n)}
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def amount() -> Amount:
    """`amount(quick, full)`: the number that this run of the tests asks for."""
    return lambda quick, full: full if FULL else quick


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    """`tally("runs killed", 25)` adds to that total. It travels in the test's report, which is
    all that a worker process hands to the one that prints."""
    return lambda name, number: request.node.user_properties.append((f"tally {name}", number))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    totals: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, number in report.user_properties:
            if name.startswith("tally "):
                totals[name.removeprefix("tally ")] += number
    if totals:
        terminalreporter.section("faults: " + ("the whole" if FULL else "a sample"))
        for name, number in totals.items():
            terminalreporter.write_line(f"{number:7,}  {name}")
