"""Memory on a processor: keep what the next step asks for, and nothing for steps long gone.

glibc's malloc asks the kernel for a fresh mapping when a tensor is large, and gives it back when
the tensor dies. The kernel fills new pages with zeros, one page fault for each 4 KiB, at every step
again; for element-wise layers that costs more than their arithmetic.
"""

import ctypes
import gc
import os
import platform

# The keys of mallopt(3), from <malloc.h>.
M_TRIM_THRESHOLD = -1
M_TOP_PAD = -2
M_MMAP_THRESHOLD = -3

LARGEST = 2**31 - 1
"""mallopt takes an int; only what is larger than this is still mapped on its own."""
PAD = 64 * 2**20
"""How much more than needed is asked for when the heap has to grow."""


CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""How many prepared matrix products oneDNN, and PyTorch's layer above it, remember."""


def bound_caches(products: int = 16) -> None:
    """Let few prepared matrix products be remembered, unless the user's environment says else.

    Each keeps its workspace. With batches of ever other shapes the default of 1,024 is gigabytes
    of memory that is not asked for again; on the small Transformer a cache of 16 was as fast.
    Must come before the first product.
    """
    for name in CACHES:
        os.environ.setdefault(name, str(products))


def keep_pages() -> bool:
    """Keep freed memory in this process instead of returning it; says whether that took effect.

    Changes malloc for the whole process, so it belongs at a program's start, not in a library's
    import. The process stays as large as it once was. Elsewhere than on glibc it does nothing.
    """
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    mallopt.argtypes, mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    settings = {M_MMAP_THRESHOLD: LARGEST, M_TRIM_THRESHOLD: LARGEST, M_TOP_PAD: PAD}
    return all(mallopt(key, value) == 1 for key, value in settings.items())


def give_back() -> None:
    """Return to the system what is free now, whatever `keep_pages` says: once, after something
    large is gone that will hardly be asked for again."""
    gc.collect()  # an error that was raised beside it may still hold it
    if platform.system() == "Linux" and platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
