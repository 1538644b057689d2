"""Attention of `transformers` models through `cutlass_ext.fmha`.

from cutlass_ext.integrations.transformers import register

register()
model = AutoModel.from_pretrained(name, attn_implementation="cutlass_ext")
"""

from __future__ import annotations

import torch

from cutlass_ext import fmha
from cutlass_ext.fmha.attn_bias import LowerTriangularMask

# What some models add to the scores or do with them beside mask and scale.
_NOT_BUILT = ("position_bias", "softcap", "s_aux")


def register(
    name: str = "cutlass_ext", *, op: str | None = None, precision: str | None = None
) -> None:
    """Adds `name` to the attention implementations that a model can be given.

    op, precision   as `memory_efficient_attention` takes them

    Models without a mask, or with one that hides nothing, are served: encoders on sentences of one
    length, decoders from an empty cache. NotImplementedError from a call that needs more.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    def attention(
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attention_mask: torch.Tensor | None,
        scaling: float | None = None,
        dropout: float = 0.0,
        is_causal: bool | None = None,
        **kwargs,
    ) -> tuple[torch.Tensor, None]:
        for argument in _NOT_BUILT:
            if kwargs.get(argument) is not None:
                raise NotImplementedError(
                    f"The model passes {argument}, which is not built yet: use "
                    "attn_implementation='eager'."
                )
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        # A mask says all that is hidden: causal is what remains where there is none.
        is_causal = is_causal and attention_mask is None
        if key.shape[1] != query.shape[1]:
            raise NotImplementedError(
                f"The model has {query.shape[1]} query heads and {key.shape[1]} key heads: grouped "
                "heads are not built yet; use attn_implementation='sdpa'."
            )
        if hides_something(attention_mask):
            raise NotImplementedError(
                f"The model passes a mask of shape {list(attention_mask.shape)} that hides keys, "
                "which is not built yet: group inputs by length and leave attention_mask out, or "
                "use attn_implementation='sdpa'."
            )
        if is_causal and query.shape[2] not in (1, key.shape[2]):
            raise NotImplementedError(
                f"{query.shape[2]} queries meet {key.shape[2]} keys of a cache: causal attention "
                "from the bottom right is not built yet; use attn_implementation='sdpa'."
            )
        # One query at the end of a cache sees every key.
        causal = is_causal and query.shape[2] > 1
        # Only strides change: [B, H, M, K] as the model has it, [B, M, H, K] here.
        output = fmha.memory_efficient_attention(
            *(tensor.transpose(1, 2) for tensor in (query, key, value)),
            LowerTriangularMask() if causal else None,
            p=dropout if module.training else 0.0,
            scale=scaling,
            op=op,
            precision=precision,
        )
        return output, None

    AttentionInterface.register(name, attention)
    # Without a function of its own an implementation gets no mask, whatever the model was given.
    # This one leaves out a mask that hides nothing, or nothing but what `is_causal` hides.
    AttentionMaskInterface.register(name, sdpa_mask)


def hides_something(mask: torch.Tensor | None) -> bool:
    """Whether a boolean (True: visible) or additive mask differs from no mask at all."""
    if mask is None:
        return False
    visible = mask if mask.dtype == torch.bool else mask == 0
    return not bool(visible.all())
