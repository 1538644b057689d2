"""One table of attention calls, by name: parametrised tests, opcheck and measurements draw on it.

Small enough for device code on the CPU. Each stands for a way in which a kernel can go wrong; those
that broke other implementations say how.
"""

from __future__ import annotations

from cutlass_ext.testing.attention import Sample

# Rows of so many elements are whole 16-byte vectors, halves of them, or neither.
_HEAD_DIMS = (1, 3, 4, 5, 7, 12, 20, 30, 36, 44, 100, 128)

SAMPLES: dict[str, Sample] = {
    "one tile": Sample(queries=64, keys=64),
    "partial tiles": Sample(batch=2, heads=2, queries=33, keys=65, head_dim=32, value_dim=40),
    "several tiles": Sample(queries=150, keys=197, head_dim=64, value_dim=64),
    "441, no multiple of 8": Sample(heads=2, queries=441, keys=441, causal=True),
    "values wider than keys": Sample(queries=40, keys=77, head_dim=8, value_dim=128),
    "keys wider than values": Sample(queries=40, keys=77, head_dim=128, value_dim=8),
    # Causal from the top left, wherever the corners lie.
    "causal": Sample(queries=130, keys=130, causal=True),
    "causal, one query": Sample(queries=1, keys=8, head_dim=8, value_dim=8, causal=True),
    "causal, fewer keys": Sample(queries=5, keys=2, head_dim=8, value_dim=8, causal=True),
    "causal, many fewer keys": Sample(queries=197, keys=65, causal=True),
    "causal, many more keys": Sample(queries=65, keys=197, causal=True),
    # Nothing to compute.
    "no batch": Sample(batch=0, heads=10, queries=3952, keys=16),
    "no query": Sample(queries=0),
    "no key": Sample(queries=130, keys=0),
    # Rows of zeros apart: strides of 0, and neighbours that no row may touch.
    "keys shared by heads": Sample(
        batch=2, heads=16, queries=1, keys=77, layouts=("transposed", "one_head", "one_head")
    ),
    "keys shared by the batch": Sample(
        batch=3, queries=33, keys=40, layouts=("contiguous", "one_batch", "one_batch")
    ),
    "packed": Sample(batch=2, heads=2, queries=13, keys=13, layouts=("packed",) * 3),
    "rows apart": Sample(heads=2, queries=65, keys=70, layouts=("padded",) * 3),
    "columns apart": Sample(heads=2, queries=65, keys=70, layouts=("strided",) * 3),
    "unaligned": Sample(heads=2, queries=65, keys=70, layouts=("offset",) * 3),
    "every layout": Sample(
        batch=2, heads=2, queries=40, keys=70, layouts=("packed", "transposed", "offset")
    ),
    # Scales that change the order of scores, or make them all one.
    "negative scale": Sample(queries=40, keys=70, scale=-0.5),
    "zero scale": Sample(queries=40, keys=70, scale=0.0),
    "large scores": Sample(queries=40, keys=197, scale=4.0),
    **{
        f"head dim {width}": Sample(queries=17, keys=70, head_dim=width, value_dim=width)
        for width in _HEAD_DIMS
    },
}
