"""The next step that `init` prints can be pasted into a shell."""

import shlex


def test_the_next_step_can_be_pasted_where_a_folders_name_has_a_space(cli, tmp_path):
    folder = tmp_path / "my data"
    output = cli("init", folder).out
    command = output.split("next: `")[1].split("`")[0]
    assert shlex.split(command) == ["cd", str(folder)]
