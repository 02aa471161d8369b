"""The command `plan` on an empty workspace."""


def test_an_empty_workspace_is_told_to_mine(workspace, cli):
    run = cli("plan", "-C", workspace.root)
    assert run.code == 1 and "no conversations yet: run `saferec-build mine" in run.err
