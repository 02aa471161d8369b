"""plan as a command, on a workspace that holds nothing."""


def test_an_empty_workspace_is_told_to_mine(workspace, cli):
    ran = cli("plan", "-C", workspace.root)
    assert ran.code == 1 and "no conversations yet: run `saferec-build mine" in ran.err
