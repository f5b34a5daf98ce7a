"""Scripts of endpoints: when they run, and what they get."""
import json
import os
import signal

import pytest

from lab import Mesh, wait_until

SCRIPT = """#!/usr/bin/python3
import json, os, sys
fds = {name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
       if os.path.exists(f"/proc/self/fd/{name}")}
with open("%s", "a", encoding="utf-8") as out:
    out.write(json.dumps({"fds": fds, "env": dict(os.environ), "args": sys.argv[1:],
                          "cwd": os.getcwd()}) + "\\n")
print("done", os.environ["WEFT_VERB"])
"""


class Scripted:
    """A mesh of two; n1 has a script that notes each of its runs."""

    def __init__(self, lab):
        self.mesh = Mesh(lab, 2)
        self.notes = lab.dir / "notes"
        self.script = self.make(lab.dir / "updown")
        self.node = self.with_script(self.script)

    def make(self, path):
        path.write_text(SCRIPT % self.notes)
        path.chmod(0o755)
        return path

    def with_script(self, path):
        endpoint = dict(self.mesh.config(1)["endpoints"][0])
        return self.mesh.reconfigure(1, endpoints=[dict(endpoint, updown=str(path))
                                                   if path else endpoint])

    def runs(self):
        return [json.loads(line) for line in self.notes.read_text().splitlines()] \
            if self.notes.exists() else []

    def verbs(self):
        return [run["env"]["WEFT_VERB"] for run in self.runs()]

    def wait_verbs(self, *verbs):
        wait_until(lambda: self.verbs() == list(verbs), 5.0, f"the runs {verbs}")


@pytest.fixture
def scripted(lab):
    return Scripted(lab)


def test_what_a_script_gets(scripted):
    """No descriptors but 0, 1 and 2, and what it is told is right."""
    mesh = scripted.mesh.start()
    mesh.wait_up()
    scripted.wait_verbs("up")
    run, = scripted.runs()
    # python opens the folder to list it, which is gone when it is looked at
    assert sorted(run["fds"]) == ["0", "1", "2"]
    assert run["fds"]["0"] == "/dev/null"
    assert all(run["fds"][fd].startswith("pipe:") for fd in "12")
    assert run["args"] == [] and run["cwd"] == "/"
    env = run["env"]
    link, = scripted.node.links("up")
    assert env["PLUTO_CONNECTION"] == env["WEFT_LINK"] == link["id"]
    assert env["PLUTO_VERB"] == "up-client" and env["WEFT_PEER"] == "org2/n2"
    assert (env["PLUTO_ME"], env["PLUTO_PEER"]) == ("10.0.0.1", "10.0.0.2")
    assert env["PLUTO_MY_ID"] == "O=org1, CN=n1, serialNumber=0"
    assert env["PLUTO_PEER_ID"] == "O=org2, CN=n2, serialNumber=0"
    assert env["PLUTO_INTERFACE"] == env["WEFT_TUN"] == "weft0"
    assert env["WEFT_LINK_LOCAL"].startswith("fe80::")
    assert env["WEFT_PEER_LINK_LOCAL"].startswith("fe80::")
    assert set(env) - {"PATH", "LC_CTYPE"} == {name for name in env
                                             if name.startswith(("PLUTO_", "WEFT_"))}
    scripted.node.process.wait_log(r"updown org2/n2:0-0: done up")


def test_when_a_script_runs(scripted):
    mesh, node = scripted.mesh.start(), scripted.node
    mesh.wait_up()
    scripted.wait_verbs("up")
    node.tool("rekey", "n2")
    mesh.wait_one_pair()
    assert scripted.verbs() == ["up"]
    node.tool("down", "n2")
    scripted.wait_verbs("up", "down")
    node.tool("up", "n2")
    scripted.wait_verbs("up", "down", "up")
    node.reload()
    # another script takes over, which may be run now and could not before
    scripted.with_script(scripted.make(mesh.lab.dir / "other"))
    node.reload()
    scripted.wait_verbs("up", "down", "up", "down", "up")
    scripted.with_script(None)
    node.reload()
    scripted.wait_verbs("up", "down", "up", "down", "up", "down")
    scripted.with_script(scripted.script)
    node.reload()
    scripted.wait_verbs("up", "down", "up", "down", "up", "down", "up")
    node.stop()
    assert scripted.verbs()[-1] == "down"


def test_a_script_that_fails_or_hangs_holds_nothing_up(scripted):
    scripted.script.write_text("#!/bin/sh\necho trouble >&2\nsleep 100\n")
    mesh = scripted.mesh.start()
    mesh.wait_reach()
    scripted.node.process.wait_log("updown org2/n2:0-0: trouble")
    scripted.node.stop()
    assert "are killed" in scripted.node.process.log()


def test_nothing_is_left_after_kill(scripted):
    mesh = scripted.mesh.start()
    mesh.wait_up()
    ns = mesh.spaces[0]

    assert len(helpers(ns)) == 1
    scripted.node.kill()
    wait_until(lambda: not helpers(ns), 3.0, "the helper to end")


def test_a_helper_that_was_killed_is_told(scripted):
    """In status as well, as long as no scripts are run; the links do not care."""
    mesh = scripted.mesh.start()
    mesh.wait_up()

    def told():
        return [line for line in scripted.node.status()["warnings"] if "helper process" in line]
    assert not told()
    os.kill(int(*helpers(mesh.spaces[0])), signal.SIGKILL)
    wait_until(told, 5.0, "status to say so")
    mesh.wait_reach()
    scripted.node.stop()
    assert scripted.node.process.exit_code == 0


def helpers(ns):
    return [pid for pid in ns.run("ip", "netns", "pids", ns.name).stdout.split()
            if name_of(pid) == "weft-updown"]


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as comm:
            return comm.read().strip()
    except FileNotFoundError:
        return None
