"""A reward benchmark from judged pools: propose, draft, annotate, audit, freeze, predict.

A benchmark in the making is a folder (`workbench.py` names its files), so that every step can be
repeated, looked at and gone on with.
"""
