"""Connects a workspace to its review server, finds its reviewers' accounts, and starts a Label Studio of its own."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from annotation.review_destinations import Argilla, LabelStudio
from annotation.review_state import ReviewState
from annotation.tools import argilla_client, label_studio_client, local_label_studio
from saferec_builder.core.counts import Counts
from saferec_builder.core.errors import ReviewError, UsageError
from saferec_builder.core.json_value import JsonValue
from saferec_builder.storage.workspace import Workspace

Client = label_studio_client.Server | argilla_client.Server


def server_folder(ws: Workspace) -> Path:
    """Folder of the workspace's own Label Studio: its full path, since the server runs in another working folder, and
    without links, so that the server is found again from everywhere."""
    return (ws.root / "label-studio").resolve()


def _host(url: str) -> str:
    try:
        return urlsplit(url).netloc
    except ValueError:
        raise UsageError(f"--url {url}: this is no address: expected one like https://labels.example.org") from None


def connect(ws: Workspace, place: LabelStudio | Argilla) -> Client:
    """A client of the team's server if `place` has an address, else of the workspace's own."""
    url, token = place.url, place.api_key if isinstance(place, Argilla) else place.token
    if url and "@" in _host(url):
        raise UsageError(
            "--url holds a user or password: give the token with --token (or SAFEREC_REVIEW_TOKEN) instead"
        )
    if isinstance(place, Argilla):
        if not url or not token:
            raise UsageError("--tool argilla: give --url, and --token (or SAFEREC_REVIEW_TOKEN) of an owner there")
        return argilla_client.Server(url, token, accounts=ws.root / "argilla-accounts.json")
    if url:
        if not token:
            raise UsageError(f"--url {url}: give --token too (or SAFEREC_REVIEW_TOKEN): your account page shows it")
        return label_studio_client.Server(url, token)
    facts = local_label_studio.state(folder := server_folder(ws))
    if facts is None:
        raise UsageError(
            "there is no review server yet: run `saferec-build review up`, give --url and --token, or say --tool page"
            " (`review serve`) or --tool files"
        )
    if not local_label_studio.alive(folder, facts):  # in a copied workspace the address is that of the original's
        raise ReviewError(f"{folder}: the Label Studio of this workspace is not running: run `saferec-build review up`")
    return label_studio_client.Server(facts["url"], facts["token"])


def accounts_of(state: ReviewState, server: Client, names: list[str]) -> dict[str, str]:
    """reviewer -> account on the server: created on the workspace's own, looked up in saferec.toml for a team's."""
    account_of, folder = account_names(state, server, names), server_folder(state.ws)
    facts = local_label_studio.state(folder)
    if facts is None or facts["url"] != server.url or not isinstance(server, label_studio_client.Server):
        return {name: account_of.get(name, name) for name in names}
    emails = {name: local_label_studio.account(folder, server, name)["email"] for name in names}
    server.invite()  # ends the invitation link that a killed push left open
    return emails


def account_names(state: ReviewState, server: Client, names: list[str]) -> dict[str, str]:
    """reviewer -> account, by saferec.toml or the workspace's own server. Raises UsageError if two names share one
    account: that person would count as two readers who agree."""
    facts = local_label_studio.state(server_folder(state.ws))
    accounts = facts["accounts"] if facts and facts["url"] == server.url else {}
    account_of = dict(state.ws.config.review.accounts) | {name: account["email"] for name, account in accounts.items()}
    owner: dict[str, str] = {}
    for name in sorted({*names, *state.assignments["reviewer"]}):
        account = account_of.get(name, name)
        if other := owner.get(account.casefold()):
            raise UsageError(
                f"{other} and {name} are both {account!r} on the review server: one person is never two readers: go on"
                " with the name that has tasks here, or mend [review] accounts in saferec.toml"
            )
        owner[account.casefold()] = name
    return account_of


def how_to_log_in(state: ReviewState, server: Client, names: list[str]) -> str:
    """Where these people log in, and where the owner finds the passwords of accounts made here; empty for Label Studio:
    `start` says it of our own, and on a team's everybody has an account."""
    if not isinstance(server, argilla_client.Server):
        return ""
    accounts = account_names(state, server, names)
    people = ", ".join(name if accounts.get(name, name) == name else f"{name} (as {accounts[name]})" for name in names)
    verb = "logs" if len(names) == 1 else "log"
    return f"{people} {verb} in at {server.url}; passwords of accounts that were made here: {server.accounts}"


def start(ws: Workspace, say: Callable[[str], None] = lambda line: None) -> Counts:
    """Starts the workspace's own Label Studio; installs it first if needed (about 850 MB). `added` is 0 if it runs.

    Calls `say` with a line for each long step. The figures are its address, the owner's login, the e-mail of each
    reviewer, and the file that holds their passwords.
    """
    facts, new = local_label_studio.up(server_folder(ws), say)
    passwords = str(server_folder(ws) / "server.json")
    figures: dict[str, JsonValue] = {"url": facts["url"], "login": facts["email"], "passwords": passwords}
    figures["reviewers"] = {name: account["email"] for name, account in facts["accounts"].items()}
    return Counts("review up", int(new), int(not new), figures=figures)


def is_stopped(ws: Workspace) -> bool:
    """Whether the workspace has a Label Studio of its own that does not run; False where its server.json is damaged,
    which `doctor` and each command that needs it say."""
    with suppress(ReviewError):
        facts = local_label_studio.state(folder := server_folder(ws))
        return facts is not None and not local_label_studio.alive(folder, facts)
    return False


def stop(ws: Workspace) -> Counts:
    """Stops the workspace's own Label Studio and keeps its data; `added` is 0 if it was not running."""
    stopped = local_label_studio.down(server_folder(ws))
    return Counts("review down", int(stopped), figures={"label_studio": "stopped" if stopped else "was not running"})
