"""Which part of a text each token wrote."""

from collections.abc import Callable, Sequence

from regard.decoding.stopping import MARGIN

Decode = Callable[[Sequence[int]], str]


def spans(decode: Decode, before_it: Sequence[int], written: Sequence[int]) -> list[str]:
    """What each token adds to the text that was written after others: a character of several tokens
    is added by its last."""
    tokens, found = [*before_it, *written], list[str]()
    known = len(before_it)  # up to here the text is whole …
    seen = max(0, known - MARGIN)  # … and from here on it is looked at
    for end in range(known + 1, len(tokens) + 1):
        before, now = decode(tokens[seen:known]), decode(tokens[seen:end])
        whole = end == len(tokens) or not now.endswith("\ufffd")
        found.append(now[len(before) :] if whole else "")
        if whole:
            seen, known = max(seen, min(known, end - MARGIN)), end
    return found
