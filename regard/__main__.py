"""`python -m regard` and the command `regard` begin here."""

import os


def main() -> None:
    """The command line. Ctrl-C while it is being imported ends it at once: a library in the middle
    of its import may take the exception for something else."""
    try:
        import signal

        usual = signal.default_int_handler
        if signal.getsignal(signal.SIGINT) is usual:  # where a shell has it ignored, it stays so
            signal.signal(signal.SIGINT, _stop)
        from regard.cli import main as run

        if signal.getsignal(signal.SIGINT) is _stop:
            signal.signal(signal.SIGINT, usual)
    except KeyboardInterrupt:
        _stop()
    run()


def _stop(*_: object) -> None:
    os._exit(130)  # as a shell has it: 128 + SIGINT


if __name__ == "__main__":
    main()
