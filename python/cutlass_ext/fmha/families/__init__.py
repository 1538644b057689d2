"""Families of kernels: each knows which problems it serves, why not the others, and how."""
