"""What the running daemon still may, and what it leaves behind."""
import os
import re
import signal
from pathlib import Path

from lab import Mesh, is_sanitized, wait_ping, wait_until

NET_BIND_SERVICE, NET_ADMIN, SYS_ADMIN = 10, 12, 21
CLOEXEC = 0o2000000


def threads(node):
    """{thread: {field of its status: text}}"""
    found = {}
    for task in Path(f"/proc/{node.process.pid}/task").iterdir():
        lines = (task / "status").read_text().splitlines()
        found[task.name] = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return found


def capabilities(text):
    return {bit for bit in range(64) if int(text, 16) >> bit & 1}


def test_every_thread_has_dropped_what_it_does_not_need(mesh):
    node = mesh.nodes[0]
    assert len(threads(node)) >= 2
    for fields in threads(node).values():
        for kind in ("CapEff", "CapPrm"):
            assert capabilities(fields[kind]) == {NET_BIND_SERVICE, NET_ADMIN}
        assert not capabilities(fields["CapInh"]) and not capabilities(fields["CapAmb"])
        if not is_sanitized():
            assert fields["NoNewPrivs"].strip() == "1"
            assert fields["Seccomp"].strip() == "2"  # a filter
    # and does all the same what a running daemon does
    node.config["announce"] = ["10.77.0.0/16"]
    node.configure(node.config)
    node.reload()
    node.tool("rekey", "n2")
    mesh.wait_one_pair()


def test_a_namespace_of_its_own_costs_one_capability_more(lab):
    mesh = Mesh(lab, 2)
    inside = lab.ns("inside")
    node = mesh.reconfigure(1, tun={**mesh.config(1)["tun"], "netns": inside.name})
    mesh.start()
    mesh.wait_up()
    wait_ping(inside, mesh.inner(2))
    for fields in threads(node).values():
        assert capabilities(fields["CapEff"]) == {NET_BIND_SERVICE, NET_ADMIN, SYS_ADMIN}


def test_no_descriptor_would_survive_a_new_program(mesh):
    for node in mesh.nodes:
        folder = Path(f"/proc/{node.process.pid}/fdinfo")
        for fd in sorted(folder.iterdir(), key=lambda path: int(path.name)):
            if int(fd.name) <= 2:
                continue
            flags = int(fd.read_text().split("flags:")[1].split()[0], 8)
            assert flags & CLOEXEC, os.readlink(f"/proc/{node.process.pid}/fd/{fd.name}")


def test_memory_is_locked_or_one_line_says_why_not(lab):
    mesh = Mesh(lab, 2)
    poor, other = mesh.nodes
    poor.start(wrap=("prlimit", f"--memlock={1 << 20}", "setpriv", "--bounding-set=-sys_resource"))
    other.start()
    line, = [line for line in poor.process.log().splitlines() if "memory cannot be locked" in line]
    assert re.search("keys .*swap.*: Operation not permitted; .*LimitMEMLOCK=infinity$", line)
    # whoever has the right says nothing, and locks
    proc = Path(f"/proc/{other.process.pid}")
    limit, = re.findall(r"^Max locked memory +(\w+)", (proc / "limits").read_text(), re.MULTILINE)
    locked, = re.findall(r"^VmLck:\s+(\d+)", (proc / "status").read_text(), re.MULTILINE)
    if limit == "unlimited":
        assert "memory cannot be locked" not in other.process.log()
        assert int(locked) > 0


def test_a_crash_leaves_no_core(mesh):
    """Keys are in no core, whatever limit the daemon was started with."""
    node = mesh.nodes[0]
    limits = Path(f"/proc/{node.process.pid}/limits").read_text()
    core, = [line for line in limits.splitlines() if line.startswith("Max core file size")]
    assert core.split()[4:6] == ["0", "0"]
    node.process.signal(signal.SIGABRT)
    wait_until(lambda: not node.process.running, 10.0, "the daemon to end")
    assert not [path for path in Path(f"{node.dir}").rglob("*core*")]
