"""How much is tested: everything in `cargo xtask deep` (CAIRN_TESTS=deep), else each operator in one type and one layout."""

import os
import zlib

DEEP = os.environ.get("CAIRN_TESTS") == "deep"

# Parameters of which one combination for each operator is enough.
PRODUCTS = {"dtype", "layout"}


def once_each(items):
    """Of the tests that differ only in `PRODUCTS`, one: which one differs from operator to operator, never from run to run."""
    groups = {}
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        others = [f"{name}={params[name]}" for name in sorted(params) if name not in PRODUCTS]
        groups.setdefault((item.nodeid.partition("[")[0], *others), []).append(item)
    return [group[zlib.crc32(repr(key).encode()) % len(group)] for key, group in groups.items()]
