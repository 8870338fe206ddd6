"""What the engine's sizing laws are in each release: one row a law, one value a release from which it holds.

Each boundary was read in the source of the release that it names and of the one before it (``config/cache.py``,
``config/vllm.py``, ``engine/arg_utils.py``, ``v1/kv_cache_interface.py``, ``v1/core/kv_cache_utils.py``,
``platforms/interface.py``): 0.9.2, 0.10.2 to 0.33.0. What lies between two that were read counts as the older one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Generic, TypeVar

Release = tuple[int, int, int]
Value = TypeVar("Value")


def parsed_release(text: str) -> Release:
    """``0.27.1``, ``v0.26.0rc1`` or ``0.29`` as a triple; ``ValueError`` when no number is found."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text.strip())
    if found is None:
        raise ValueError(f"not an engine release: {text!r}")
    return int(found[1]), int(found[2]), int(found[3] or 0)


@dataclass(frozen=True, slots=True)
class Law(Generic[Value]):
    """A value that changed with releases: ``first``, then each of ``changes`` from its release on, in rising order."""

    first: Value
    changes: tuple[tuple[Release, Value], ...] = ()

    def at(self, release: Release) -> Value:
        """The value that holds in ``release``."""
        value = self.first
        for since, changed in self.changes:
            if release >= since:
                value = changed
        return value


# Share of the card that is taken when nobody says.
DEFAULT_UTILIZATION = Law(0.90, (((0, 20, 0), 0.92),))
# Kinds of layers whose counts differ by less than this factor are padded to one size of group.
SAME_SIZE = Law(1.0, (((0, 12, 0), 1.25), ((0, 18, 0), 1.5)))
# The log's token figure is concurrency times window; before, blocks over groups, too small for hybrids.
TOKENS_ARE_CONCURRENCY = Law(False, (((0, 20, 1), True),))
# The start-up check asks for every layer's own pages, then for the groups of the whole model, then for those of one stage.
CHECK = Law("layers", (((0, 14, 0), "model"), ((0, 17, 0), "stage")))
# Every batch that may be in flight is reserved beside a window, not one alone.
BATCHES_IN_FLIGHT = Law(False, (((0, 26, 0), True),))
# The block of a hybrid with latent attention is a multiple of 128 tokens.
HYBRID_LATENT_BLOCK = Law(1, (((0, 27, 0), 128),))
# Draft tokens add state blocks in modes none and align; in mode all.
DRAFTS_ADD_STATES = Law(False, (((0, 15, 0), True),))
DRAFTS_ADD_STATES_IN_ALL = Law(False, (((0, 22, 0), True),))
# Draft tokens lengthen the convolution state of KDA layers, as they always did for the others.
KDA_KEEPS_DRAFTS = Law(False, (((0, 27, 0), True),))
# Mode ``all`` of the state cache exists.
STATE_MODE_ALL = Law(True, (((0, 32, 0), False),))
# Mode ``align`` keeps one block more for a checkpoint inside a prefill: Mamba2 always, GDN with FlashInfer's prefill.
MAMBA2_CHECKPOINT = Law(0, (((0, 32, 0), 1),))
GDN_CHECKPOINT = Law(0, (((0, 33, 0), 1),))
# The start-up check leaves out the block that the pool never lends.
NULL_BLOCK_RESERVED = Law(False, (((0, 29, 0), True),))
# A page that does not divide the widest one is padded; before, stock releases refused.
PAGES_ARE_PADDED = Law(False, (((0, 24, 0), True),))
# Default batch of a card with 160 GiB or more.
LARGEST_BATCH = Law(8192, (((0, 28, 0), 16_384),))
# A GB10 counts as a small card although its memory is large.
GB10_IS_SMALL = Law(False, (((0, 33, 0), True),))
# The card chooses how sparse latents are kept; read in 0.26.0, 0.27.1 and 0.33.0, before that Hopper's layout is taken for all.
SPARSE_ALWAYS_PACKED = Law(True, (((0, 12, 0), False),))
SPARSE_BY_CARD = Law(False, (((0, 26, 0), True),))
# Models that take the newer runner unasked: none that is known by its shape, dense and latent ones, all.
DEFAULT_RUNNER = Law("old", (((0, 25, 0), "dense"), ((0, 26, 0), "dense-and-latent"), ((0, 29, 0), "all")))
# The newer runner charges an estimate of its CUDA graphs to the share, as the older one does.
V2_CHARGES_GRAPHS = Law(False, (((0, 29, 0), True),))
# The older runner does so unasked.
V1_CHARGES_GRAPHS = Law(False, (((0, 20, 0), True),))
# Mixed caches in one slab (DeepSeek-V4): a block holds whole tuples of page sizes; the most pages of each size; the widest group.
PACKED_BLOCK = Law("tuples", (((0, 23, 0), "slots"), ((0, 27, 0), "widest")))
# The start-up check counts a whole tuple for each block of such a cache; a block's own bytes after.
PACKED_CHECK = Law("tuples", (((0, 29, 0), "widest"),))
