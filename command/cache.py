"""Show or clear the folder of compiled kernels.

Nothing in the cache can be out of date, and everything is compiled again when it is needed; clearing it frees space.
"""

from __future__ import annotations

import argparse

__all__ = ["arguments", "run", "size"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=["path", "size", "clear"],
        metavar="path|size|clear",
        help="print the folder, or its number of files and bytes, or delete what is in it; by default both are printed",
    )


def run(options: argparse.Namespace) -> None:
    """Print or clear."""
    from triskele.core.extend import disk_cache

    files, bytes_ = size()
    if options.action == "path":
        print(disk_cache.folder())
    elif options.action == "size":
        print(f"{files} files, {bytes_ / 1e6:.1f} MB")
    elif options.action == "clear":
        disk_cache.clear_cache()
        print(f"deleted {files - size()[0]} files, {(bytes_ - size()[1]) / 1e6:.1f} MB, from {disk_cache.folder()}")
    else:
        print(f"{disk_cache.folder()}: {files} files, {bytes_ / 1e6:.1f} MB")


def size() -> tuple[int, int]:
    """Return the number of files in the cache and their size in bytes."""
    from triskele.core.extend import disk_cache

    sizes = [status.st_size for _, status in disk_cache.entries()]
    return len(sizes), sum(sizes)
