"""Lines of JSON carry records elsewhere; lines from elsewhere are not trusted."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansor.errors import RecordError
from ansor.records import jsonl
from ansor.records.database import Database
from ansor.records.rows import Content
from ansor.records.text import canonical
from measured import doubling, measured

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
COUNT = 15


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The lines of an exported file, and the database it came from."""
    folder = tmp_path_factory.mktemp("exported")
    task, other = doubling(), doubling(name="Other", size=99)
    with Database(folder / "a.db") as database:
        database.add_all(task, [measured(task, n) for n in range(1, COUNT)])
        database.add(other, measured(other, 3))
        assert database.export(folder / "a.jsonl") == COUNT
    return (folder / "a.jsonl").read_bytes().splitlines(keepends=True), folder / "a.db"


@pytest.fixture
def load(tmp_path):
    def load(lines):
        path = tmp_path / "lines.jsonl"
        path.write_bytes(b"".join(lines))
        with Database(tmp_path / "to.db") as database:
            loaded = database.load(path)
            assert database.verify().is_clean
            return loaded, list(database.records())

    return load


def test_exported_records_return(exported, load):
    lines, source = exported
    loaded, records = load(lines)
    assert (loaded.added, loaded.refused) == (COUNT, 0)
    with Database(source, "r") as database:
        assert records == list(database.records())
    again, _ = load(lines)
    assert (again.added, again.known) == (0, COUNT)


def test_an_export_is_the_same_text_each_time(exported, tmp_path):
    lines, source = exported
    with Database(source) as database:
        database.export(tmp_path / "b.jsonl")
    assert (tmp_path / "b.jsonl").read_bytes() == b"".join(lines)


def test_bad_lines_are_named_and_the_others_taken(exported, load):
    lines, _ = exported
    bad = [b"\n", b"{", b"[]\n", b'{"line": "dance"}\n', b"\xff\xfe\n", b"NaN\n"]
    bad += [
        b"[" * 100_000 + b"\n",
        b"9" * 10_000 + b"\n",
        b'"\\ud800"\n',
        lines[-1][:50],
    ]
    loaded, records = load([*lines[:5], *(x.rstrip() + b"\n" for x in bad), *lines[5:]])
    assert [line for line, _ in loaded.reasons] == list(range(6, 6 + len(bad)))
    assert loaded.added == len(records) == COUNT
    assert "line 6: line: not JSON" in str(loaded)


def test_a_line_without_end_is_refused(exported, load, monkeypatch):
    lines, _ = exported
    monkeypatch.setattr(jsonl, "MAX_BYTES", 100_000)
    monkeypatch.setattr("ansor.records.text.MAX_BYTES", 100_000)
    loaded, _ = load([lines[0], b'"' + b"x" * 250_000 + b'"\n', *lines[1:]])
    assert (loaded.refused, loaded.added) == (1, COUNT)
    assert loaded.reasons[0][0] == 2


def forged(line, **changes):
    return canonical({**json.loads(line), **changes}).encode() + b"\n"


def test_times_cannot_be_edited(exported, load):
    lines, _ = exported
    at = next(n for n, line in enumerate(lines) if b'"line":"record"' in line)
    changed = lines[at].replace(b"e-06", b"e-09", 1)
    assert changed != lines[at]
    loaded, _ = load([*lines[:at], changed, *lines[at + 1 :]])
    assert loaded.reasons[0][1] == "record: its digest does not match: it was changed"


@pytest.mark.parametrize(
    ("kind", "key", "reason"),
    [
        ("workload", "w1-" + "0" * 64, "its key is not that of what it computes"),
        ("target", "cpu fast", "its fingerprint is not that of its fields"),
        ("sketch", "0" * 64, "refers to a workload"),
    ],
)
def test_what_is_claimed_is_computed_again(exported, load, kind, key, reason):
    """Even if its hash was forged to fit, and with it all that needs it."""
    lines, _ = exported
    at = next(n for n, line in enumerate(lines) if f'"line":"{kind}"'.encode() in line)
    data = json.loads(lines[at])["data"]
    made = forged(lines[at], key=key, hash=Content(kind, key, canonical(data)).hash)
    loaded, records = load([*lines[:at], made, *lines[at + 1 :]])
    assert reason in loaded.reasons[0][1]
    assert len(records) <= 1


def test_steps_that_do_not_replay_are_refused(exported, load):
    lines, _ = exported
    at = next(n for n, line in enumerate(lines) if b'"line":"sketch"' in line)
    line = json.loads(lines[at])
    line["data"]["steps"][0]["stage"] = "no such stage"
    content = Content("sketch", line["key"], canonical(line["data"]))
    loaded, _ = load([*lines[:at], forged(lines[at], data=line["data"],
                                          hash=content.hash)])  # fmt: skip
    assert "no such stage" in loaded.reasons[0][1]


def test_a_point_outside_the_candidates_is_refused():
    with pytest.raises(RecordError, match="501 is not a candidate"):
        jsonl.check_point({"t": (1, 2)}, {"t": 501})
    with pytest.raises(RecordError, match="missing"):
        jsonl.check_point({"t": (1, 2)}, {})


@given(JUNK, st.integers(0, 2**32))
def test_whatever_the_lines_say_loading_ends_well(exported, tmp_path_factory, junk, n):
    lines, _ = exported
    draw = random.Random(n)
    at = draw.randrange(len(lines))
    line = json.loads(lines[at])
    place = line
    while isinstance(place, dict) and place:
        name = draw.choice(list(place))
        if isinstance(place[name], dict) and draw.random() < 0.7:
            place = place[name]
            continue
        place[name] = junk
        break
    text = json.dumps(line).encode() + b"\n"
    path = tmp_path_factory.mktemp("fuzz") / "a.jsonl"
    path.write_bytes(b"".join([*lines[:at], text, *lines[at + 1 :]]))
    with Database(path.with_suffix(".db")) as database:
        loaded = database.load(path)
        assert loaded.added + loaded.known + loaded.refused >= len(database)
        assert database.verify().is_clean
