"""Shards: each is done once, even after kills; the result is the same with one worker, several, or Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from saferec_builder.core.errors import StoreError, UsageError
from saferec_builder.storage import parallel as engine
from tests.conftest import NOT_RUN
from tests.servers.argilla_up import free_port

NO_RAY = f"{NOT_RUN}Ray (pip install --constraint constraints.txt ray)"
NOBODY = 4194305  # above the largest number that a process can have
ONE, TWO = engine.How(workers=1), engine.How(workers=2)


def square(work, folder):
    """At module level, so that another process can import it."""
    (folder / "square.txt").write_text(str(work * work))
    return {"square": work * work}


def fails_at_three(work, folder):
    if work == 3:
        (folder / "half.txt").write_text("half")
        raise ValueError("three")
    return square(work, folder)


def dies_once(work, folder):
    """Kills the worker of a shard that has a `mark`, the first time only."""
    number, mark = work
    if mark and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(number, folder)


def dies_always(work, folder):
    os.kill(os.getpid(), signal.SIGKILL)


def lasts(work, folder):
    """One shard is done at once, the others run until they are stopped."""
    while work:
        time.sleep(0.05)
    return square(work, folder)


def waits(work, folder):
    """Logs each start with its node and process; shards with a gate wait until it is open."""
    import ray

    number, gate, log = work
    with open(log, "a") as file:
        file.write(f"s{number} {ray.get_runtime_context().get_node_id()} {os.getpid()}\n")
    while gate and not Path(gate).exists():
        time.sleep(0.05)
    return square(number, folder)


def ports():
    """With given ports, a node need not wait for agents to choose them, which takes too long on a busy machine."""
    names = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")
    return {name: free_port() for name in names}


def starts(log):
    return [line.split() for line in log.read_text().splitlines()] if log.exists() else []


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def threads(work, folder):
    import polars

    return {"threads": polars.thread_pool_size()}


def shards(n):
    return {f"s{k}": k for k in range(n)}


def test_facts_come_in_the_order_of_the_shards_and_only_what_is_missing_is_done(tmp_path):
    facts = engine.map_shards(square, shards(4), tmp_path, ONE)
    assert facts == {f"s{k}": {"square": k * k} for k in range(4)}
    times_before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.txt")}
    engine.map_shards(square, shards(6), tmp_path, ONE)
    times_after = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.txt")}
    assert len(times_after) == 6 and all(times_after[p] == times_before[p] for p in times_before)


def test_a_shard_without_its_manifest_is_done_again_and_leaves_nothing_old(tmp_path):
    engine.map_shards(square, shards(2), tmp_path, ONE)
    expected = files(tmp_path)
    (tmp_path / "s1.json").unlink()
    (tmp_path / "s1" / "stray.txt").write_text("of the killed run")
    engine.map_shards(square, shards(2), tmp_path, ONE)
    assert files(tmp_path) == expected
    for manifest in ("", '{"squ'):  # a manifest emptied by a power cut does not count
        (tmp_path / "s1.json").write_text(manifest)
        assert engine.map_shards(square, shards(2), tmp_path, ONE)["s1"] == {"square": 1}
        assert files(tmp_path) == expected


def test_what_a_killed_run_left_is_gone_after_the_next_and_nobody_elses_is(tmp_path):
    """What another machine is writing stays until its shard is done: its processes cannot be looked up here."""
    here = engine._machine()
    probes = ".s0.0f0f.tmp", ".s0.48213344091.tmp"  # a random name may have digits alone
    gone = [*probes, f".s1.{here}-{NOBODY}.tmp", elsewhere := f".s0.0a1b2c3d-{NOBODY}.tmp"]
    stay = [f".s0.{here}-{os.getppid()}.tmp", f".s9.{here}-{NOBODY}.tmp"]  # at work, or a shard of another command
    for name in (*gone, *stay):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half.txt").write_text("half")
    (tmp_path / f".s0.{here}-{os.getpid()}.tmp").write_text("{")  # a manifest: numbers of processes are used again
    engine._remove_leftovers(tmp_path, shards(2))
    assert (tmp_path / elsewhere).is_dir()
    engine.map_shards(square, shards(2), tmp_path, ONE)
    assert {path.name for path in tmp_path.iterdir()} == {"s0", "s0.json", "s1", "s1.json", *stay}


def test_a_shard_that_another_run_has_ended_meanwhile_stays_as_it_is(tmp_path, monkeypatch):
    """The other run may be reading it: its folder vanished for a moment, and its contents were lost silently."""

    def overtaken(work, folder):
        with monkeypatch.context() as patch:
            patch.setattr(engine.os, "getpid", os.getppid)
            engine._make_shard(square, "s0", work, tmp_path)
        (tmp_path / "s0" / "read.txt").touch()
        return square(work, folder) | {"ours": True}

    assert engine.map_shards(overtaken, shards(1), tmp_path, ONE) == {"s0": {"square": 0}}
    assert set(files(tmp_path)) == {"s0.json", "s0/read.txt", "s0/square.txt"}


@pytest.mark.slow
def test_workers_divide_the_cores_among_them(tmp_path, monkeypatch):
    """Two shards on eight cores get two workers with four threads each, even if --workers allows more.

    The user's setting for polars stays, and so does the environment.
    """
    monkeypatch.setattr(engine, "cores", lambda: 8)
    four = engine.How(workers=4)
    facts = engine.map_shards(threads, shards(2), tmp_path / "own", four)
    assert facts["s0"] == facts["s1"] == {"threads": 4} and "POLARS_MAX_THREADS" not in os.environ
    monkeypatch.setenv("POLARS_MAX_THREADS", "3")
    assert engine.map_shards(threads, shards(2), tmp_path / "told", four)["s0"] == {"threads": 3}
    assert os.environ["POLARS_MAX_THREADS"] == "3"


def test_by_default_there_are_no_more_workers_than_cores_that_this_process_may_use(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(engine, "_in_processes", None)  # is not called: this process may use one core
    assert len(engine.map_shards(square, shards(2), tmp_path / "shards", engine.How())) == 2


def test_a_fault_in_a_shard_is_told_and_the_others_stay(tmp_path):
    with pytest.raises(ValueError, match="three"):
        engine.map_shards(fails_at_three, shards(5), tmp_path, ONE)
    assert {p.name for p in tmp_path.glob("*.json")} == {"s0.json", "s1.json", "s2.json"}
    assert not (tmp_path / "s3").exists()
    assert engine.map_shards(square, shards(5), tmp_path, ONE)["s4"] == {"square": 16}


@pytest.fixture(params=["local", "ray"])
def how(request):
    if request.param == "ray":
        pytest.importorskip("ray", reason=NO_RAY)
    return engine.How(request.param, workers=2)


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(tmp_path, how):
    calm, disturbed, mark = tmp_path / "calm", tmp_path / "disturbed", tmp_path / "killed"
    engine.map_shards(square, shards(6), calm, ONE)
    works = {f"s{k}": (k, str(mark) if k == 3 else "") for k in range(6)}
    engine.map_shards(dies_once, works, disturbed, how)
    assert mark.exists() and files(disturbed) == files(calm) and not list(disturbed.glob(".*"))


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("how", ["local", pytest.param("ray", marks=pytest.mark.soak)], indirect=True)
def test_workers_that_always_die_end_in_one_line(tmp_path, how):
    with pytest.raises(StoreError, match="workers died 3 times .*, 2 shards are missing"):
        engine.map_shards(dies_always, shards(2), tmp_path, how)
    assert not list(tmp_path.glob("s*.json"))


def test_ray_is_an_extra_and_a_cluster_needs_postgresql(cli, workspace, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match=r"saferec-builder\[ray\]"):
        engine.map_shards(square, shards(2), tmp_path / "shards", engine.How("ray"))
    for address in ("auto", "10.0.0.1", f"127.0.0.1:{free_port()}", "[::1]:99999"):  # Ray itself would wait
        with pytest.raises(UsageError, match="nothing answers there .*: expected local, or a cluster's address"):
            engine.map_shards(square, shards(2), tmp_path / "shards", engine.How("ray", address=address))
    dump = tmp_path / "RC.ndjson"
    dump.write_text("{}\n")
    result = cli("mine", "reddit", dump, "--engine", "ray", "--ray-address", "10.0.0.1:6379", "-C", workspace.root)
    assert result.code == 1 and "postgresql" in result.err and result.err.count("\n") == 1


@pytest.mark.slow
def test_a_rerun_after_the_loss_of_a_node_does_only_what_is_missing(tmp_path):
    """Two real nodes; the first run loses its driver and one node, the second continues with the other."""
    pytest.importorskip("ray", reason=NO_RAY)
    from ray.cluster_utils import Cluster

    gate, log, folder = tmp_path / "gate", tmp_path / "log", tmp_path / "shards"
    works = {f"s{k}": (k, str(gate) if k in (2, 3) else "", str(log)) for k in range(6)}
    engine.map_shards(square, shards(6), tmp_path / "calm", ONE)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **ports()})
    try:
        nodes = {node.node_id: node for node in (cluster.add_node(num_cpus=1, **ports()) for _ in range(2))}
        how = engine.How("ray", address=cluster.address)
        driver = get_context("spawn").Process(target=engine.map_shards, args=(waits, works, folder, how))
        driver.start()
        deadline = time.monotonic() + 120
        while not {"s2", "s3"} <= {shard for shard, *_ in starts(log)}:  # each occupies one node
            assert driver.is_alive() and time.monotonic() < deadline
            time.sleep(0.05)
        node_of = {shard: node for shard, node, _ in starts(log)}
        assert node_of["s2"] != node_of["s3"]
        cluster.remove_node(nodes[node_of["s3"]], allow_graceful=False)
        driver.kill()
        driver.join()
        while any(Path("/proc", process).exists() for *_, process in starts(log)):  # a lost worker ends later
            assert time.monotonic() < deadline
            time.sleep(0.05)
        count = len(starts(log))
        times = {p.stem: p.stat().st_mtime_ns for p in folder.glob("s*.json")}
        assert {"s0", "s1"} <= set(times) and not {"s2", "s3"} & set(times)
        gate.touch()
        engine.map_shards(waits, works, folder, how)
    finally:
        cluster.shutdown()
    rerun = [shard for shard, *_ in starts(log)[count:]]
    assert {"s2", "s3"} <= set(rerun) and not set(times) & set(rerun)
    assert {p.stem: p.stat().st_mtime_ns for p in folder.glob("s*.json") if p.stem in times} == times
    assert files(folder) == files(tmp_path / "calm") and not list(folder.glob(".*"))


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path):
    with pytest.raises(StoreError, match="does not see this folder"):
        engine._make_shard(square, "s0", 2, tmp_path, probe=".probe-of-the-driver")
    assert json.dumps(files(tmp_path), default=str) == "{}"


def started(folder):
    """A run in its own session, with one shard done and two workers busy for ever."""
    code = (
        "import sys; from pathlib import Path; from tests.storage import test_parallel as t\n"
        "from saferec_builder.storage import parallel as engine\n"
        "if __name__ == '__main__':\n"
        "    try: engine.map_shards(t.lasts, {'a': 0, 'b': 1, 'c': 1}, Path(sys.argv[1]), t.TWO)\n"
        "    except KeyboardInterrupt: sys.exit(130)\n"
    )
    command = [sys.executable, "-c", code, str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (folder / "a.json").exists():
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.slow
def test_workers_end_with_whoever_started_them(tmp_path):
    """After kill -9 they did the queued shards, paid for them, and then waited for ever."""
    process = started(tmp_path)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    with pytest.raises(ProcessLookupError):  # no process of the session is left
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def says_deaf():
    print(signal.getsignal(signal.SIGINT) == signal.SIG_IGN)


@pytest.mark.slow
def test_importing_tests_leaves_a_worker_deaf():
    """A worker that got Ctrl-C while it was still importing reported it, once in many runs."""
    code = "import signal; signal.signal(2, signal.SIG_IGN); import tests.storage.test_parallel as t; t.says_deaf()"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "True\n"


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_and_says_nothing(tmp_path):
    """A terminal sends it to the whole group; finished shards stay, and a rerun does the rest."""
    process = started(tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    assert (process.communicate(timeout=60)[1], process.returncode) == ("", 130)
    assert engine.map_shards(square, {"a": 0, "b": 1, "c": 1}, tmp_path, ONE)["b"] == {"square": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "a.json", "b", "b.json", "c", "c.json"]
