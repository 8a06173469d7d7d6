"""`StagedFile`: a file whose changes stay in memory until they are written to the disk together, or not at all."""

from __future__ import annotations

import io
import os

__all__ = ["StagedFile"]

_PAGE = 1 << 14


class StagedFile(io.RawIOBase):
    """A file for a library that cannot bear failed writes, such as HDF5, whose state is broken by a full disk.

    Writes change pages in memory. `commit` brings them to the disk: first what makes the file longer, which is taken
    back if it does not fit; then, when no more room is needed, what lies within the file. Unless it is `new`, and
    begins empty, the file must exist.
    """

    def __init__(self, path: str, new: bool):
        super().__init__()
        self._disk = open(path, "w+b" if new else "r+b", buffering=0)  # noqa: SIM115
        self._pages: dict[int, bytearray] = {}
        self._at = 0
        self._on_disk = self._size = os.fstat(self._disk.fileno()).st_size
        self._kept = self._on_disk  # bytes on the disk that no `truncate` has cut off

    def fileno(self) -> int:
        """The descriptor of the file on the disk."""
        return self._disk.fileno()

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def truncate(self, size: int | None = None) -> int:
        self._size = self._at if size is None else size
        self._kept = min(self._kept, self._size)
        for page in [p for p in self._pages if (p + 1) * _PAGE > self._size]:
            self._pages[page][max(0, self._size - page * _PAGE) :] = bytes(_PAGE - max(0, self._size - page * _PAGE))
        return self._size

    def readinto(self, buffer) -> int:
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._size - self._at))
        done = 0
        while done < wanted:
            page, start = divmod(self._at, _PAGE)
            count = min(_PAGE - start, wanted - done)
            view[done : done + count] = self._page(page)[start : start + count]
            self._at += count
            done += count
        return done

    def write(self, data) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            page, start = divmod(self._at, _PAGE)
            count = min(_PAGE - start, len(view) - done)
            if page not in self._pages:
                self._pages[page] = self._page(page)
            self._pages[page][start : start + count] = view[done : done + count]
            self._at += count
            done += count
        if done:
            self._size = max(self._size, self._at)
        return done

    def commit(self) -> None:
        """Write all changes to the disk; after an OSError the file there is as it was, as far as that can be done."""
        if self._kept < self._on_disk:
            os.ftruncate(self._disk.fileno(), self._kept)
            self._on_disk = self._kept
        inside, beyond = [], []
        for page in sorted(self._pages):
            begin, data = page * _PAGE, memoryview(self._pages[page])[: max(0, self._size - page * _PAGE)]
            cut = min(max(self._on_disk - begin, 0), len(data))
            inside.append((begin, data[:cut]))
            beyond.append((begin + cut, data[cut:]))
        try:
            for at, data in beyond:
                self._put(at, data)
        except OSError:
            os.ftruncate(self._disk.fileno(), self._on_disk)
            raise
        for at, data in inside:
            self._put(at, data)
        os.ftruncate(self._disk.fileno(), self._size)
        self._on_disk = self._kept = self._size
        self._pages.clear()

    def close(self) -> None:
        """Close the file; what has not been committed is lost."""
        if not self.closed:
            self._disk.close()
        super().close()

    def _page(self, page: int) -> bytearray:
        """The content of a page; zeros beyond the end."""
        if page in self._pages:
            return self._pages[page]
        found = os.pread(self._disk.fileno(), max(0, min(_PAGE, self._kept - page * _PAGE)), page * _PAGE)
        return bytearray(found.ljust(_PAGE, b"\0"))

    def _put(self, at: int, data: memoryview) -> None:
        while data:
            written = os.pwrite(self._disk.fileno(), data, at)
            at, data = at + written, data[written:]
