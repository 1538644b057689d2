"""This library's attention inside other libraries."""
