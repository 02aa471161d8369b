"""One link per person: it opens until it is revoked or replaced, and no file holds it."""

import pytest

from annotation.page import links
from annotation.push import push
from annotation.review_destinations import ReviewPage
from saferec_builder.core.errors import StoreError, UsageError
from tests.worlds import review_world


def token(made, name):
    return made[name].partition("#")[2]


def test_a_link_opens_until_it_is_replaced_or_revoked(workspace) -> None:
    review_world.fill(workspace)
    push(workspace, ["ann", "bo"], to=ReviewPage())
    with pytest.raises(UsageError, match="nobody knows yet where the page is"):
        links.make(workspace, ["ann"])
    urls = links.make(workspace, ["ann", "bo"], "http://127.0.0.1:8765")
    old_token = token(urls, "ann")
    assert urls["ann"].startswith("http://127.0.0.1:8765/#") and len(old_token) == 43  # 32 bytes in base64
    assert (links.holder(workspace, old_token), links.holder(workspace, token(urls, "bo"))) == ("ann", "bo")
    new_token = token(links.make(workspace, ["ann"]), "ann")  # at the earlier address
    assert (links.holder(workspace, old_token), links.holder(workspace, new_token)) == (None, "ann")
    assert links.revoke(workspace, "ann") and not links.revoke(workspace, "ann")
    assert links.holder(workspace, new_token) is None and links.holder(workspace, token(urls, "bo")) == "bo"
    assert links.holder(workspace, "") is None
    with pytest.raises(UsageError, match="cy has no tasks on the page"):
        links.make(workspace, ["cy"])


def test_no_file_holds_a_link_and_only_its_owner_reads_the_hashes(workspace) -> None:
    review_world.fill(workspace)
    push(workspace, ["ann"], to=ReviewPage())
    secret = token(links.make(workspace, ["ann"], "http://x"), "ann")
    files = [path for path in workspace.root.rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    assert (workspace.root / ".page-links.json").stat().st_mode & 0o777 == 0o600
    (workspace.root / ".page-links.json").write_text('{"people": {}, "people": {}, "address": ""}')
    with pytest.raises(StoreError, match="damaged"):  # a key twice
        links.holders(workspace)
