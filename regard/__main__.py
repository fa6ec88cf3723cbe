"""`python -m regard` and the command `regard` begin here."""

import os

INTERRUPTED = 130
"""The exit code."""


def main() -> None:
    """The command line. Ctrl-C while it is being imported ends it at once: a library in the middle
    of its import may take the exception for something else."""
    try:
        import signal

        heard = signal.getsignal(signal.SIGINT)
        if heard is signal.default_int_handler:  # where a shell has it ignored, it stays ignored
            signal.signal(signal.SIGINT, _stop)
        from regard.cli import main as run

        signal.signal(signal.SIGINT, heard)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    run()


def _stop(number: int, frame: object) -> None:
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
