"""The notebooks of the docs run from top to bottom and give the outputs stored in them."""

import copy
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doc_pages import DOCS

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def shown(notebook: Any) -> list[list[str]]:
    """Returns the text outputs of each code cell, without the warnings of libraries."""
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    texts = [[out for out in outputs if out.get("name") != "stderr"] for outputs in cells]
    return [[out.get("text") or out["data"]["text/plain"] for out in outputs] for outputs in texts]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_what_it_shows(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nbformat  # takes seconds to load
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    run = copy.deepcopy(stored)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")  # for its `!` lines
    client = NotebookClient(run, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    try:
        client.execute()
    except CellExecutionError as fault:  # a `!` line that fails is only seen in what it wrote
        pytest.fail("\n".join([str(fault), *(log.read_text() for log in tmp_path.glob("*.log"))]))
    assert shown(run) == shown(stored)
    assert sum(map(len, shown(stored))) >= 8  # it has outputs to compare
