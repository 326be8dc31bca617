"""Doctests of modules: device kernels cannot be imported without Triton, which is made for Linux alone."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["rankwise/objectives/torch/kernels/*.py"]
