"""plan as a command, on a workspace that holds nothing."""


def test_an_empty_workspace_has_a_plan(workspace, cli):
    found = cli("plan", "-C", workspace.root, "--json").json
    assert (found["conversations"], found["rows"], found["lookups"], found["shortfalls"]) == (0, [], [], [])
    assert found["unknown"] == 1.0
