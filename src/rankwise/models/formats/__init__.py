"""Model files of the libraries: one reader of each, which checks while it reads, into one form of nodes.

The libraries believe every number in a file: a node that does not exist, or a loop of nodes, ends the process or never
ends. Checksums find accidents; these checks find forgeries. They are not complete: load models of unknown origin in a
separate process.

Models stay in the binary formats of XGBoost and CatBoost. With their JSON, 500 trees of 31 and of 255 leaves took
``rw.load`` 2.4 and 4.8 times as long for XGBoost, and at least 14 and 20 times for CatBoost, whose JSON also loses the
last bit of scores. And older binary files could not be converted safely without the same checks.
"""

BEGINNINGS = (b"tree\n", b'{"learner"', b"{L", b"CBM1")
"""First bytes of the model files of LightGBM, XGBoost and CatBoost."""
