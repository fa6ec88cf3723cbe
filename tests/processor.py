"""Tests whose result depends on the processor run under several of them: see `make processors`."""

import pytest

from regard.layers import native

needs_bfloat16 = pytest.mark.skipif(
    not native.bfloat16(), reason="this processor has no native bfloat16, so it is not used here"
)
