"""Accounts of the servers are matched with our reviewers."""

import pytest

from annotation.tools import argilla_client as argilla_server, label_studio_client as label_studio_server
from annotation.tools.label_studio import interface
from annotation.tools.sync import Project
from saferec_builder.core.errors import ReviewError
from tests.worlds.sheet_answers import TAXONOMY


def test_a_project_shows_another_page_once_its_interface_or_guidelines_were_edited():
    server, setup = (
        label_studio_server.Server("http://x", "t"),
        (interface(TAXONOMY), label_studio_server.instructions()),
    )
    page = server.project_page("mark cards reviewer", TAXONOMY)
    edited = [(setup[0].replace('alias="needles"', 'alias="nedles"'), setup[1]), (setup[0], "quick!")]
    for shown in (setup, (f"{setup[0]}\n", setup[1]), *edited):  # the server strips the interface
        assert (server.project_page_there(Project("7", "x", "place", shown)) == page) == (shown not in edited)


def test_a_stranger_with_a_reviewers_name_is_not_that_reviewer():
    """Ann's account is named in saferec.toml: another Ann on a shared server is somebody else."""
    accounts = {"ann": "ann.lee@team.org"}
    people = {1: ("ann.lee@team.org", "ann.lee", "al"), 2: ("ann@else.org", "ann", ""), 3: ("bo@team.org", "bo", "")}
    assert label_studio_server.names_of(people, accounts, ["ann", "bo"]) == {1: "ann", 2: "user-2", 3: "bo"}
    with pytest.raises(ReviewError, match=r"ann@a.org and ann@b.org could both be ann: .*accounts = { ann = "):
        label_studio_server.names_of({1: ("ann@a.org", "ann", ""), 2: ("ann@b.org", "ann", "")}, {}, ["ann"])
    with pytest.raises(ReviewError, match=r"ann@a.org could be anna and ann: one person is never two readers"):
        label_studio_server.names_of({1: ("ann@a.org", "ann", "")}, {"anna": "ann@a.org"}, ["ann", "anna"])  # renamed
    argilla_users = {"11111111-1": "ann.lee", "22222222-2": "ann", "33333333-3": "bo", "44444444-4": "di"}
    names = argilla_server.names_of(argilla_users, {"ann": "ann.lee"}, ["ann", "bo"])
    assert list(names.values()) == ["ann", "user-22222222", "bo", "di"]
