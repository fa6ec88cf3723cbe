"""What takes one step after the other: text that is written, and a series that goes on.

The traced graph of a step is the body of a loop, so that a program asks once and gets the whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.interop.assembly import Assembly, Carried, Form, name_inputs

ALL = 2**62
"""More than there is of anything."""
TOKENS: dict[str, Form] = {"tokens": ("int64", [1, "read"])}
WRITTEN: dict[str, Form] = {"written": ("int64", ["written"])}
SAME = "token_after = Identity (token)"
LONGER = """
longer = Concat <axis = 1> (text, token)
longer_size = Shape <start = 1, end = 2> (longer)
over = Greater (longer_size, window)
begin = Where (over, half, zero)
text_after = Slice (longer, begin, all, one)
"""
"""What the next step reads: one token, or all of a window."""


@dataclass(frozen=True, kw_only=True)
class Text:
    """How text is written, token by token: tokens (1, S) ↦ written (T)

    A token is argmaxₖ (scoreₖ − temperature · log(−log uₖ)) with uniform u, which is a draw from
    softmax(score / temperature) (Gumbel 1954); at 0 it is the likeliest.
    """

    step: Path
    """The graph of a step."""
    state: Mapping[str, int]
    """What it hands on from token to token, and how wide; if nothing, it reads all tokens again."""
    tokens: int
    """In the vocabulary."""
    never: Sequence[int]
    """Those of them that are not written."""
    stop: int
    """The one that ends a text, and is left out."""

    def continued(self, path: Path, *, length: int, window: int) -> None:
        """What follows tokens. A step that reads all again, but no more than a window of tokens,
        goes on with the last half of it where it is full."""
        made = Assembly()
        zeros = {f"first_{name}": np.zeros((1, n), np.float32) for name, n in self.state.items()}
        made.add("", most=[length], **zeros)
        body = Assembly()
        body.add(
            """
            uniform = RandomUniformLike <low = 0.000001, high = 0.999999> (allowed)
            log = Log (uniform)
            exponential = Neg (log)
            gumbel = Log (exponential)
            scaled = Mul (gumbel, temperature)
            scores = Sub (allowed, scaled)
            """
        )
        self._loop(made, body, "tokens", {}, window)
        made.write(path, {**TOKENS, "temperature": ("float", [1])}, WRITTEN)

    def translated(
        self, reader: Path, path: Path, *, start: int, factor: float, extra: int
    ) -> None:
        """What n tokens and an end become: at most ⌊factor · n⌋ + extra tokens, none for none."""
        made = Assembly()
        made.file(reader, "first_", tokens="tokens")
        made.add(
            """
            size = Shape <start = 1, end = 2> (tokens)
            count = Sub (size, one)
            count_real = Cast <to = 11> (count)
            bound_real = Mul (count_real, factor)
            bound = Cast <to = 7> (bound_real)
            bound_more = Add (bound, extra)
            longest = Max (bound_more, one)
            any = Min (count, one)
            most = Mul (longest, any)
            """,
            prompt=[[start]], factor=[float(factor)], extra=[extra],
        )  # fmt: skip
        body = Assembly()
        body.add("scores = Identity (allowed)")
        self._loop(made, body, "prompt", {"source": "tokens", "memory": "first_memory"}, ALL)
        made.write(path, TOKENS, WRITTEN)

    def _loop(
        self,
        made: Assembly,
        choice: Assembly,
        prompt: str,
        given: Mapping[str, str],
        window: int,
    ) -> None:
        """`written` from a prompt, at most `most` tokens: a step, what is chosen by its scores, and
        whether it goes on."""
        never = np.zeros(self.tokens, np.float32)
        never[list(self.never)] = -np.inf
        made.add(
            f"prompt_size = Shape <start = 1, end = 2> ({prompt})\nlast = Sub (prompt_size, one)",
            one=[1], zero=[0], all=[ALL], flat=[-1], stop=[self.stop], never=never,
            scalar=np.zeros(0, np.int64),
        )  # fmt: skip
        body = Assembly()
        if self.state:
            carried = self._remembering(made, body, prompt, given)
        else:
            carried = self._rereading(made, body, prompt, given, window)
        body.add("allowed = Add (step_scores, never)")
        body.nodes += choice.nodes
        skipped = "last" if self.state else "zero"
        body.add(
            f"""
            token = ArgMax <axis = 2, keepdims = 0> (scores)
            is_stop = Equal (token, stop)
            no_stop = Not (is_stop)
            early = Less (i, {skipped})
            more = Or (early, no_stop)
            going = Reshape (more, scalar)
            """
        )
        body.add(SAME if self.state else LONGER)
        made.loop(body, "trips" if self.state else "most", carried, {"token": ("int64", [1, 1])})
        made.add(
            f"""
            tokens_flat = Reshape (all_token, flat)
            tokens_new = Slice (tokens_flat, {skipped}, all, zero)
            stops = Equal (tokens_new, stop)
            others = Not (stops)
            written = Compress <axis = 0> (tokens_new, others)
            """
        )

    def _remembering(
        self, made: Assembly, body: Assembly, prompt: str, given: Mapping[str, str]
    ) -> dict[str, Carried]:
        """A step reads one token, at first those of the prompt."""
        made.add(f"trips = Add (last, most)\ntoken_0 = Slice ({prompt}, zero, one, one)")
        body.add(
            f"""
            place = Min (i, last)
            prompted = Gather <axis = 1> ({prompt}, place)
            prompting = LessOrEqual (i, last)
            read = Where (prompting, prompted, token_before)
            """
        )
        states = {name: f"before_{name}" for name in self.state}
        body.file(self.step, "step_", tokens="read", **given, **states)
        carried = {"token_before": Carried("int64", "token_0", "token_after")}
        return carried | {
            f"before_{name}": Carried("float", f"first_{name}", f"step_next_{name}")
            for name in self.state
        }

    def _rereading(
        self, made: Assembly, body: Assembly, prompt: str, given: Mapping[str, str], window: int
    ) -> dict[str, Carried]:
        """A step reads all tokens, and is asked for the scores after the last."""
        half = -(window // 2 + 1)
        made.add(f"text_0 = Slice ({prompt}, half, all, one)", half=[half], window=[window])
        body.file(self.step, "step_", tokens="text", places="final", **given)
        body.add("", final=[-1])
        return {"text": Carried("int64", "text_0", "text_after")}


@dataclass(frozen=True, kw_only=True)
class Series:
    """How a series goes on: x_c (T) for each variable c ↦ columns (3C), forecast (H, 3C)

    noise ∈ ℝ^(N×K×B×C) are K draws of N blocks, 0 in the first, which is what is expected. The next
    block of each is μ + σ · noise, given those before it. Of one draw the deviation is σ, of
    several that of the others from the first; an interval is μ ± reach · deviation.
    """

    names: Sequence[str]
    look_back: int
    horizon: int
    noise: NDArray[np.float64]
    least: NDArray[np.float64]
    """The smallest deviation of several draws, for each variable."""
    reach: float

    def write(self, block: Path, path: Path) -> None:
        """From the graph of a block."""
        made, variables = Assembly(), len(self.names)
        inputs = [f"input_{n}" for n in range(variables)]
        for name in inputs:
            made.add(f"{name}_column = Unsqueeze ({name}, one)")
        made.add(
            f"""
            table = Concat <axis = 1> ({", ".join(f"{name}_column" for name in inputs)})
            table_end = Slice (table, back, all, zero)
            window = Reshape (table_end, window_shape)
            past_0 = Expand (window, draws)
            """,
            one=[1], zero=[0], all=[ALL], back=[-self.look_back], blocks=[len(self.noise)],
            window_shape=[1, self.look_back, variables], draws=[self.noise.shape[1], 1, 1],
        )  # fmt: skip
        form: Form = ("double", ["draws", "steps", variables])
        carried = {"past": Carried("double", "past_0", "past_after")}
        made.loop(self._step(block), "blocks", carried, {"future": form, "deviation": form})
        self._table(made)
        ends = [name + end for name in self.names for end in ("", ".low", ".high")]
        made.add("columns = Identity (ends)", ends=ends)
        forms: dict[str, Form] = {name: ("double", ["steps"]) for name in inputs}
        said: dict[str, Form] = {"columns": ("string", [len(ends)])}
        said["forecast"] = ("double", [self.horizon, len(ends)])
        made.write(path, forms, said)
        name_inputs(path, self.names)

    def _step(self, block: Path) -> Assembly:
        body = Assembly()
        body.file(block, "block_", past="past")
        body.add(
            """
            deviation = Identity (block_deviation)
            drawn = Gather (noise, i)
            shift = Mul (deviation, drawn)
            future = Add (block_mean, shift)
            longer = Concat <axis = 1> (past, future)
            past_after = Slice (longer, back, all, one)
            going = Identity (went)
            """,
            noise=self.noise,
        )
        return body

    def _table(self, made: Assembly) -> None:
        """μ and the ends of its interval, column by column."""
        _, draws, _, variables = self.noise.shape
        for each in ("future", "deviation"):
            made.add(
                f"""
                {each}_rows = Transpose <perm = [1, 0, 2, 3]> (all_{each})
                {each}_whole = Reshape ({each}_rows, rows_shape)
                {each}_near = Slice ({each}_whole, zero, horizon, one)
                {each}_first = Slice ({each}_near, zero, one, zero)
                """
            )
        if draws == 1:
            made.add("spread = Identity (deviation_first)")
        else:
            made.add(
                """
                others = Slice (future_near, one, all, zero)
                gaps = Sub (others, future_first)
                squares = Mul (gaps, gaps)
                variance = ReduceMean (squares, zero)
                roots = Sqrt (variance)
                spread = Max (roots, least)
                """,
                least=self.least,
            )
        made.add(
            """
            half = Mul (spread, reach)
            low = Sub (future_first, half)
            high = Add (future_first, half)
            middle_column = Unsqueeze (future_first, third)
            low_column = Unsqueeze (low, third)
            high_column = Unsqueeze (high, third)
            together = Concat <axis = 3> (middle_column, low_column, high_column)
            forecast = Reshape (together, table_shape)
            """,
            reach=np.float64(self.reach), third=[3], horizon=[self.horizon],
            rows_shape=[draws, -1, variables], table_shape=[self.horizon, 3 * variables],
        )  # fmt: skip
