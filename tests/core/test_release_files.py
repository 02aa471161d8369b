"""The first checks of every reader of a release: its checksums, and whether it was withdrawn."""

import pytest

from saferec_builder.core import release_files
from saferec_builder.core.errors import ReleaseError


@pytest.mark.parametrize("line", ["", "abc data", "abc  /etc/passwd", "abc  ../outside", "abc  "])
def test_sums_name_files_inside_alone(tmp_path, line):
    (tmp_path / "SHA256SUMS").write_text(f"abc  a file\n{line}\n")
    with pytest.raises(ReleaseError, match="a line is not `sha256  path` with a path inside the release"):
        release_files.read_sums(tmp_path)


def test_a_file_is_what_its_sum_says(tmp_path):
    (tmp_path / "a  b").write_bytes(b"")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"  # sha256 of nothing
    assert release_files.digest(b"") == empty[:16]
    (tmp_path / "SHA256SUMS").write_text(f"{empty}  a  b\n")
    release_files.refuse_changed(tmp_path, "a  b")
    (tmp_path / "a  b").write_bytes(b"b")
    changed = r"a  b: was changed after the release was made \(sha256 3e23e8160039…, SHA256SUMS has e3b0c44298fc…\)"
    with pytest.raises(ReleaseError, match=changed):
        release_files.refuse_changed(tmp_path, "a  b")
    (tmp_path / "b").write_bytes(b"")
    with pytest.raises(ReleaseError, match=r"b: was changed .*no sum of it"):
        release_files.refuse_changed(tmp_path, "b")
    (tmp_path / "SHA256SUMS").unlink()
    with pytest.raises(ReleaseError, match="SHA256SUMS: missing or not a text"):
        release_files.refuse_changed(tmp_path, "a  b")


def test_why_a_version_was_withdrawn(tmp_path):
    folder = tmp_path / "1.0.0"
    folder.mkdir()
    assert release_files.why_withdrawn(folder, "1.0.0") is None
    (tmp_path / "withdrawn.json").write_text('{"1.0.0": "here", "1.1.0": "another"}')
    assert release_files.why_withdrawn(folder, "1.0.0") == "here"
    (folder / "WITHDRAWN.json").write_text(r'{"1.0.0": "\ud800\u001b"}')  # could be written nowhere
    assert release_files.why_withdrawn(folder, "1.0.0") == "\ufffd\ufffd"
    (folder / "WITHDRAWN.json").write_text('{"1.0.0": "on the Hub"}')  # the reason on the Hub is the newest
    assert release_files.why_withdrawn(folder, "1.0.0") == "on the Hub"
