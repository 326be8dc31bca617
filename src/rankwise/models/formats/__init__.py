"""Model files of the libraries: one reader of each, which checks while it reads, into one form of nodes.

The libraries believe every number in a file: a node that does not exist, or a loop of nodes, ends the process or never
ends. Checksums find accidents; these checks find forgeries. They are not complete: load models of unknown origin in a
separate process.
"""

BEGINNINGS = (b"tree\n", b'{"learner"', b"{L", b"CBM1")
"""First bytes of the model files of LightGBM, XGBoost and CatBoost."""
