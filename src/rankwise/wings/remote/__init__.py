"""Data at a URL: web servers, and the stores that fsspec knows."""

from rankwise.base import hooks

for _what, _function in {"fetch": "fetch", "scanned": "scanned", "resume": "resume"}.items():
    hooks.register("url", _what, f"{__name__}.download", _function)
for _what, _function in {"errors": "errors", "files": "files_at", "parquet": "parquet_urls"}.items():
    hooks.register("url", _what, f"{__name__}.remote_files", _function)
