"""Network file systems are told from local ones."""

from pathlib import Path

import pytest

from ansor.records import connection
from ansor.records.database import Database
from ansor.records.mounts import network_file_system

TABLE = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /data rw shared:2 - nfs4 server:/data rw
31 30 8:2 / /data/local rw - xfs /dev/sdb1 rw
32 22 0:41 / /my\040disk rw - fuse.sshfs me@there: rw
33 22 0:42 / /fuse rw - fuse.ext4 image rw
34 22 0:42 / /over rw - ext4 a rw
35 22 0:42 / /over rw - cifs b rw
broken
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/a/b", ""),
        ("/data/x.db", "nfs4"),
        ("/database/x.db", ""),
        ("/data/local/x.db", ""),
        ("/my disk/x", "fuse.sshfs"),
        ("/fuse/x", ""),
        ("/over/x", "cifs"),
    ],
)
def test_the_innermost_mount_decides(tmp_path, path, kind):
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    assert network_file_system(Path(path), table) == kind


def test_without_a_table_everything_is_local(tmp_path):
    assert network_file_system(tmp_path, tmp_path / "none") == ""


def test_there_the_log_is_a_rollback_journal(tmp_path, task, make, monkeypatch):
    path = tmp_path / "a.db"
    Database(path).close()
    monkeypatch.setattr(connection, "network_file_system", lambda path: "nfs4")
    with Database(path) as database:
        assert "network file system (nfs4)" in database.notes[0]
        database.add(task, make(task, 1))
        assert not path.with_name("a.db-wal").exists()
        assert database.best(task).seconds == 1e-6
