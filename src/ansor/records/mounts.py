"""Which file system a path is on: write-ahead logs do not work over a network."""

from __future__ import annotations

from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ncpfs", "coda", "9p",
     "lustre", "ceph", "gpfs", "beegfs", "glusterfs", "pvfs2", "orangefs", "ocfs2",
     "gfs2", "vboxsf", "virtiofs", "davfs")
)  # fmt: skip
NETWORK_FUSE = frozenset(
    ("fuse.sshfs", "fuse.glusterfs", "fuse.cephfs", "fuse.ceph-fuse", "fuse.s3fs",
     "fuse.gcsfuse", "fuse.rclone", "fuse.davfs", "fuse.davfs2", "fuse.juicefs",
     "fuse.beegfs", "fuse.blobfuse", "fuse.blobfuse2", "fuse.mfs")
)  # fmt: skip


def network_file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """The name of the network file system that holds `path`; empty if it is local.

    Where there is no table of mounts, everything counts as local.
    """
    try:
        table = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    parts = path.resolve().parts
    best, kind = -1, ""
    for line in table.splitlines():
        where, name = _mount(line)
        # A later line covers an earlier one of the same place.
        if parts[: len(where)] == where and len(where) >= best:
            best, kind = len(where), name
    return kind if kind in NETWORK or kind in NETWORK_FUSE else ""


def _mount(line: str) -> tuple[tuple[str, ...], str]:
    """(parts of the mount point, kind of file system) of a line of the table."""
    left, _, right = line.partition(" - ")
    fields, kinds = left.split(" "), right.split(" ")
    if len(fields) < 5:
        return ("",), ""
    return Path(_unescaped(fields[4])).parts, kinds[0]


def _unescaped(text: str) -> str:
    r"""Spaces and the like are written as three octal digits.

    >>> _unescaped(r"/my\040disk")
    '/my disk'
    """
    for code in ("040", "011", "012", "134"):
        text = text.replace(f"\\{code}", chr(int(code, 8)))
    return text
