"""Which of the processor's instructions are in use now, by each library that computes.

A library takes the best that the processor has, or less where an environment variable bounds it.
It decides that when it is loaded, and says so only in its log: so a process of its own is asked,
which inherits the same variables as the contestants do.
"""

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

from regard.layers import native

BOUNDS = (
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
    "MKL_ENABLE_INSTRUCTIONS",
    "CT2_FORCE_CPU_ISA",
    "CT2_USE_MKL",
)
"""What bounds the instructions that are used."""
THREADS = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "OMP_PROC_BIND", "OMP_DYNAMIC", "GOMP_SPINCOUNT")
"""What changes how threads are used."""
FLAGS = {
    "avx2": "AVX2",
    "avx512f": "AVX-512",
    "avx512_vnni": "VNNI",
    "avx_vnni": "VNNI (AVX2)",
    "avx512_bf16": "bfloat16",
    "amx_tile": "AMX",
    "amx_bf16": "AMX bfloat16",
    "asimd": "NEON",
    "sve": "SVE",
    "i8mm": "int8 products",
    "bf16": "bfloat16",
}
"""What matters for matrix products, of x86 and then of ARM: the names in /proc/cpuinfo, and those
in common use."""
PROBE = """
import torch
print("torch:", torch.backends.cpu.get_cpu_capability(), flush=True)
torch.ones(2, 2).to_mkldnn()
import ctranslate2
ctranslate2.Translator("nowhere")
"""
"""Makes each library say in its log what it uses; the last line fails, after the log is written."""
SAID = {
    "torch": r"^torch: (\S+)",
    "oneDNN": r"info,cpu,isa:(?:Intel )?(.+)",
    "CTranslate2": r"Selected ISA: (\S+)",
}
PRODUCTS = {"float32": r" SGEMM backend: (\w+)", "int8": r"GEMM_S8 backend: (\w+)"}
"""What CTranslate2 leaves to another library."""


def describe() -> dict[str, str]:
    """The processor's features, what each library uses of them, and the variables that are set."""
    return {"processor has": of_processor(), **in_use(), "bfloat16": bfloat16()} | {
        name: os.environ[name] for name in (*BOUNDS, *THREADS) if name in os.environ
    }


def of_processor(info: Path = Path("/proc/cpuinfo")) -> str:
    """What the processor could do; where the system does not say, what torch has found."""
    if info.is_file():
        lines = info.read_text().splitlines()
        named = (line.partition(":")[::2] for line in lines)
        flags = next((f.split() for name, f in named if name.strip() in ("flags", "Features")), [])
        return ", ".join(name for flag, name in FLAGS.items() if flag in flags) or "none of them"
    return str(torch.backends.cpu.get_cpu_capability())


@cache
def in_use() -> dict[str, str]:
    """What each library takes now."""
    logging = {"ONEDNN_VERBOSE": "1", "CT2_VERBOSE": "1"}
    asked = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=os.environ | logging,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return said(asked.stdout)


def said(log: str) -> dict[str, str]:
    """What the libraries said of themselves; `unknown` for one that did not, or is not there."""
    found = {name: re.search(pattern, log, re.MULTILINE) for name, pattern in SAID.items()}
    used = {name: match[1].strip() if match else "unknown" for name, match in found.items()}
    used["oneDNN"] = used["oneDNN"].replace("Intel DL Boost", "VNNI")  # what Intel calls it
    for kind, pattern in PRODUCTS.items():
        if match := re.search(pattern, log):
            library = match[1].replace("DNNL", "oneDNN")  # its former name
            used["CTranslate2"] += f", {kind} products by {library}"
    return used


def is_native() -> bool:
    """Whether bfloat16 products are the processor's own, so that regard uses them."""
    return native.bfloat16()


def bfloat16() -> str:
    """What regard itself found when it decided whether to use them."""
    kind = "native" if is_native() else "emulated" if native.gain() <= 1 else "without an LSTM"
    return f"{kind}: {native.gain():.2f} times as fast as float32 in a product"
