"""The `golden` fixture itself."""


def test_a_missing_file_fails_and_says_how_to_make_it(golden, tmp_path):
    missing = type(golden)(tmp_path / "it.txt", update=False)
    assert missing != "text"
    assert "no golden file it.txt: run pytest --update-golden" in missing


def test_an_update_writes_what_it_is_compared_with(golden, tmp_path):
    path = tmp_path / "folder" / "it.txt"
    assert type(golden)(path, update=True) == "two\nlines"
    assert path.read_text() == "two\nlines\n"
    assert type(golden)(path, update=False) == "two\nlines"


def test_comparing_works_from_both_sides(golden, tmp_path):
    (tmp_path / "it.txt").write_text("text\n")
    kept = type(golden)(tmp_path / "it.txt", update=False)
    assert kept == "text"
    assert "text" == kept  # noqa: SIM300
    assert "other" != kept  # noqa: SIM300
