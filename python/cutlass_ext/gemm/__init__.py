"""Chained matrix products: two products with an activation between them, in one kernel."""

from cutlass_ext.gemm.api import chained_gemm, grouped_chained_gemm

__all__ = ["chained_gemm", "grouped_chained_gemm"]
