"""Equations that the unknown samples must satisfy, and the linear systems that solvers make of them.

A new equation is one file that implements the protocol of `protocol.py`, and an attack that solves it: the searches of
`attacks/_search` solve the span equation (`span.py`).
"""
