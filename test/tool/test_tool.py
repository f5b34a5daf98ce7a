"""The program weft: keys and checks without a daemon, and what it makes of a daemon's replies."""
import json
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from lab.schema import validate

BUILD = Path(os.environ.get("WEFT_BUILD", Path(__file__).resolve().parents[2] / "build"))

LINK = {
    "id": "acme/fra1:0-0", "peer": {"organization": "acme", "name": "fra1", "serial": "0"},
    "local": {"serial": "0", "address": "203.0.113.1", "port": 13000},
    "remote": {"address": "2001:db8::2", "port": 13001}, "state": "up", "reason": None,
    "protocol": "esp", "since_s": 4000.5, "behind_nat": True, "mtu": 1380, "rtt_ms": None,
    "loss": None, "loss_hellos": 0.25, "cost": None, "rxcost": None, "txcost": None,
    "ike": {"suite": "AES-256-GCM-16/HMAC-SHA2-512", "key_exchanges": ["X25519", "ML-KEM-768"],
            "spi_i": "0123456789abcdef", "spi_r": "fedcba9876543210", "rekey_in_s": 10000.25},
    "children": [{"suite": "AES-256-GCM-16", "key_exchanges": [], "spi_in": "00c0ffee",
                  "spi_out": "deadbeef", "esn": True, "rekey_in_s": 3000}],
    "tx": {"packets": 7, "bytes": 1536}, "rx": {"packets": 3, "bytes": 5 << 30},
    "segmented": 5, "lost": 2,
}


def link(name, state, reason=None):
    changed = json.loads(json.dumps(LINK))
    changed.update(id=f"acme/{name}:0-0", state=state, reason=reason)
    changed["peer"]["name"] = name
    if state != "up":
        changed.update(since_s=None, ike=None, children=[])
    return changed


def status(*links, warnings=()):
    return {"schema": 1, "version": "0.1.0",
            "node": {"organization": "acme", "name": "sin1", "uptime_s": 90061.5,
                     "router_id": "02:00:5e:10:00:00:00:01"},
            "tun": {"name": "weft0", "mtu": 1400, "addresses": ["10.66.0.1/32"]},
            "links": list(links),
            "counts": {"links_up": sum(found["state"] == "up" for found in links),
                       "links": len(links), "routes": 1},
            "post_quantum": "prefer", "crypto": "OpenSSL 3.5.0", "threads": 1, "helpers": 0,
            "aqm": {"state": "on", "marked": 0, "dropped": 0},
            "offload": {name: {"state": "on", "by_command": name == "udp_gro"} for name in (
                "udp_gso", "udp_gro", "tun_tso", "tun_uso", "merge_tcp", "merge_udp")},
            "warnings": list(warnings)}


class Daemon:
    """Answers with canned replies, the last one for ever, and keeps the requests."""

    def __init__(self, path, *replies):
        self.path, self.replies, self.requests = path, list(replies), []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            with client, client.makefile("rb") as lines:
                self.requests.append(json.loads(lines.readline()))
                reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
                if not isinstance(reply, bytes):
                    reply = json.dumps(reply).encode() + b"\n"
                client.sendall(reply)


@pytest.fixture
def weft(tmp_path):
    """weft with these words; replies: those of the daemon, none when there is none."""
    made = []

    def run(*words, replies=None, stdin="", env=None):
        path = tmp_path / f"sock{len(made)}"
        made.append(Daemon(path, *replies) if replies else None)
        done = subprocess.run([BUILD / "weft", "--socket", path, *words], input=stdin, text=True,
                              capture_output=True, timeout=20, check=False,
                              env={**os.environ, **(env or {})})
        done.daemon = made[-1]
        return done

    yield run
    for daemon in made:
        if daemon:
            daemon.listener.close()


def failed(done, code, *parts):
    assert done.returncode == code, done
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("weft: "), done.stderr
    for part in parts:
        assert part in done.stderr


# ---- without a daemon ----

def test_a_key_and_its_public_half(weft, tmp_path):
    key = weft("keygen")
    assert key.returncode == 0 and key.stderr == ""
    path = tmp_path / "key.pem"
    path.write_text(key.stdout)
    public = subprocess.run(["openssl", "pkey", "-in", path, "-pubout"], text=True,
                            capture_output=True, check=True).stdout
    assert weft("pubkey", str(path)).stdout == public
    assert json.loads(weft("--json", "pubkey", str(path)).stdout) == public
    assert weft("pubkey", stdin=key.stdout).stdout == public
    assert weft("pubkey", "-", stdin=key.stdout).stdout == public
    assert weft("keygen").stdout != key.stdout
    ours, theirs = socket.socketpair()  # what ssh gives a command as standard input
    ours.sendall(key.stdout.encode())
    ours.shutdown(socket.SHUT_WR)
    done = subprocess.run([BUILD / "weft", "pubkey"], stdin=theirs, text=True,
                          capture_output=True, check=False)
    assert done.stdout == public


def test_a_key_in_an_open_file_is_warned_of(weft, tmp_path):
    path = tmp_path / "key.pem"
    for mode, warned in ((0o644, True), (0o640, False), (0o600, False)):
        with open(path, "w", encoding="ascii") as out:
            os.fchmod(out.fileno(), mode)
            done = subprocess.run([BUILD / "weft", "keygen"], stdout=out, stderr=subprocess.PIPE,
                                  text=True, check=False)
        assert done.returncode == 0
        assert ("every user can read" in done.stderr) == warned
    assert "PRIVATE KEY" in path.read_text()


def test_keys_that_are_none(weft, tmp_path):
    rsa = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA"], text=True,
                         capture_output=True, check=True).stdout
    failed(weft("pubkey", stdin=rsa), 1, "standard input", "type RSA", "Ed25519")
    failed(weft("pubkey", stdin=""), 1, "no private key")
    failed(weft("pubkey", stdin="x" * 100000), 1, "cannot read standard input")
    failed(weft("pubkey", str(tmp_path / "none")), 1, "No such file")


def test_check_names_every_mistake(weft, tmp_path):
    config = tmp_path / "weft.yaml"
    registry = tmp_path / "registry.json"
    key = tmp_path / "key.pem"
    secret = weft("keygen").stdout
    key.write_text(secret)
    key.chmod(0o600)
    registry.write_text(json.dumps([{
        "organization": "acme", "public_key": weft("pubkey", stdin=secret).stdout,
        "nodes": [{"common_name": "sin1", "endpoints": [
            {"serial_number": "0", "address_family": "ip4", "address": "192.0.2.1",
             "port": 13000}]}]}]))
    good = (f"node: {{organization: acme, name: sin1, key: {key}}}\n"
            f"registry: {registry}\nendpoints: [{{serial: '0', family: ip4}}]\n")
    config.write_text(good)
    done = weft("config", "check", str(config))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    config.write_text(good + "log: loud\ntun: {mtu: 9}\n")
    done = weft("config", "check", str(config))
    assert done.returncode == 1
    assert [line.rsplit(": ", 1)[0] for line in done.stderr.splitlines()] \
        and done.stderr.startswith(f"{config}:4:6: ") and f"\n{config}:5:12: " in done.stderr
    pasted = secret.splitlines()[1]
    config.write_text(f"node: {{organization: acme, name: sin1, key: \"{pasted}\"}}\n"
                      f"registry: {registry}\nendpoints: [{{serial: '0', family: ip4}}]\n")
    done = weft("config", "check", str(config))
    assert done.returncode == 1 and pasted[20:] not in done.stderr + done.stdout
    assert "write the path" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_name_every_command(weft, shell):
    done = weft("completions", shell)
    assert done.returncode == 0
    for command in ("status", "links", "routes", "drops", "reload", "rekey", "down", "up", "log",
                    "offload",
                    "version", "keygen", "pubkey", "config", "completions"):
        assert command in done.stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)


@pytest.mark.parametrize("words", [
    (), ("bogus",), ("--bogus", "links"), ("links", "x"), ("links", "--force"), ("rekey",),
    ("rekey", "a", "b"), ("status", "--wait"), ("status", "--wait", "x"), ("status", "--wait=-1"),
    ("log", "loud"), ("offload", "udp_gso"), ("offload", "gso", "on"), ("offload", "tun_tso", "x"),
    ("config", "import"), ("config",), ("completions", "csh"), ("--socket",)])
def test_wrong_usage_is_2(weft, words):
    failed(weft(*words), 2)


def test_help(weft):
    done = weft("--help")
    assert done.returncode == 0 and done.stdout.startswith("usage: weft ")
    assert weft("links", "-h").stdout == done.stdout


# ---- with a daemon ----

def test_no_daemon(weft):
    failed(weft("links"), 1, "no weftd answers", "start it")
    done = weft("version")
    assert done.returncode == 0 and done.stdout.splitlines()[1].startswith("weftd - (no weftd")


def test_status_is_a_summary(weft):
    reply = validate("status", status(LINK, link("lax1", "connecting", "no answer"),
                                      warnings=["group weft does not exist"]))
    done = weft("status", replies=[reply])
    assert done.returncode == 0 and done.stderr == ""
    assert done.daemon.requests == [{"command": "status"}]
    for part in ("acme/sin1, up 1d 1h\n", "weft0, mtu 1400, 10.66.0.1/32", "1 up of 2\n",
                 "warning        group weft does not exist", "OpenSSL 3.5.0"):
        assert part in done.stdout
    table = done.stdout[done.stdout.index("PEER"):].splitlines()
    assert table[1].split() == ["acme/fra1", "up", "1h", "6m", "[2001:db8::2]:13001", "-", "-",
                                "5.00", "GiB", "1.50", "KiB"]
    assert table[2].endswith("  no answer") and table[2].index("connecting") == 11
    assert "\033" not in done.stdout


def test_links_show_their_keys(weft):
    done = weft("links", replies=[validate("links", {"schema": 1, "links": [LINK]})])
    assert done.returncode == 0
    for part in ("acme/fra1:0-0: up for 1h 6m\n", "X25519 + ML-KEM-768", "0123456789abcdef",
                 "esn, spi in 00c0ffee out deadbeef", "behind NAT", "mtu 1380, rtt -, loss -",
                 "203.0.113.1:13000 -> [2001:db8::2]:13001", "5.00 GiB received (3 packets)",
                 "2 of the peer's packets lost, 25.0% of its hellos; 5 sent by udp_gso"):
        assert part in done.stdout


def test_routes_and_drops(weft):
    route = {"prefix": "10.9.0.0/16", "source": None, "origin": "static",
             "via": {"link": "acme/fra1:0-0", "peer": {"organization": "acme", "name": "fra1"},
                     "rtt_ms": None},
             "metric": None, "seqno": None, "router_id": None, "selected": True,
             "feasible": True, "installed": True, "age_s": None}
    done = weft("routes", "10.0.0.0/8",
                replies=[validate("routes", {"schema": 1, "routes": [route], "next": None})])
    assert done.daemon.requests == [{"command": "routes", "argument": "10.0.0.0/8"}]
    assert done.stdout.splitlines()[1].split() == [
        "10.9.0.0/16", "-", "static", "acme/fra1:0-0", "-", "-", "installed", "-"]
    learned = {**route, "origin": "babel", "metric": 9, "seqno": 1, "age_s": 4.0,
               "router_id": "02:00:00:00:00:00:00:01", "selected": False, "installed": False}
    retracted = {**learned, "metric": None}
    done = weft("routes", replies=[validate("routes", {"schema": 1, "next": None,
                                                       "routes": [learned, retracted]})])
    assert [line.split()[6] for line in done.stdout.splitlines()] == ["STATE", "spare", "unusable"]
    drops = {"schema": 1, "drops": {"no-route": 5, "martian": 0, "too-big": 4000000000}}
    done = weft("drops", replies=[validate("drops", drops)])
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["REASON", "PACKETS"], ["too-big", "4000000000"], ["no-route", "5"]]


def test_routes_come_in_parts(weft):
    def route(i):
        return {"prefix": f"10.{i}.0.0/16", "source": None, "origin": "local", "via": None,
                "metric": None, "seqno": None, "router_id": None, "selected": True,
                "feasible": True, "installed": False, "age_s": None}

    parts = [validate("routes", {"schema": 1, "routes": [route(i) for i in part], "next": then})
             for part, then in (([1, 2], "0000000000000002"), ([], "8000000000000001"),
                                ([3], None))]
    asked = [{"command": "routes"}, {"command": "routes", "from": "0000000000000002"},
             {"command": "routes", "from": "8000000000000001"}]
    done = weft("routes", replies=parts)
    assert done.returncode == 0 and done.daemon.requests == asked
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "PREFIX", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"]
    done = weft("--json", "routes", replies=parts)
    assert done.returncode == 0 and done.daemon.requests == asked
    assert validate("routes", json.loads(done.stdout)) == {
        "schema": 1, "routes": [route(i) for i in (1, 2, 3)], "next": None}
    none = validate("routes", {"schema": 1, "routes": [], "next": None})
    assert weft("routes", replies=[none]).stdout == "no routes\n"
    assert json.loads(weft("--json", "routes", replies=[none]).stdout) == none
    refused = weft("--json", "routes", "x", replies=[{"schema": 1, "error": "no prefix"}])
    assert json.loads(refused.stdout)["error"] == "no prefix" and refused.returncode == 1


def test_trace(weft):
    peer = {"organization": "acme", "name": "fra1"}
    via = {"link": "acme/fra1:0-0", "peer": peer}
    route = {"prefix": "10.9.0.0/16", "source": None, "origin": "babel",
             "via": {**via, "rtt_ms": 25.0}, "metric": 216, "seqno": 1,
             "router_id": "02:00:00:00:00:00:00:01", "selected": True, "feasible": True,
             "installed": True, "age_s": 4.0}
    reply = {"schema": 1, "source": "10.1.0.1", "destination": "10.9.0.1", "policy": None,
             "segments": [], "route": route, "alternatives": [
                 {"via": {**via, "link": "acme/sin1:0-0"}, "metric": None,
                  "why_not": "the neighbour has taken it back"}],
             "estimated_rtt_ms": 50.25, "hops": [
                 {"node": peer, "address": None, "rtt_ms": None, "source": "local"},
                 {"node": peer, "address": "fd00::1", "rtt_ms": 25.0, "source": "probed"},
                 {"node": None, "address": None, "rtt_ms": None, "source": "silent"}],
             "verdict": "link", "reason": "by the relay fra1\x1b[31m"}
    done = weft("trace", "10.1.0.1", "10.9.0.1", replies=[validate("trace", reply)])
    assert done.daemon.requests == [{"command": "trace", "argument": "10.1.0.1 10.9.0.1"}]
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["verdict", "link"] and ["estimated", "50.2", "ms"] in lines
    assert ["1", "acme/fra1", "fd00::1", "25.0", "ms", "probed"] in lines
    assert ["2", "-", "-", "-", "silent"] in lines
    assert any(line[:2] == ["acme/sin1:0-0", "-"] for line in lines if line)
    assert "\x1b" not in done.stdout
    reply.update(route=None, alternatives=[], estimated_rtt_ms=None, verdict="no-route")
    done = weft("trace", "10.1.0.1", "10.9.0.1", replies=[validate("trace", reply)])
    assert "verdict      no-route" in done.stdout and "NOT BY" not in done.stdout
    failed(weft("trace", "10.1.0.1"), 2, "an argument is missing")


def test_watch(weft):
    reply = validate("status", status(LINK))
    done = weft("watch", replies=[reply, reply, {"schema": 1, "error": "it goes"}])
    assert done.daemon.requests == [{"command": "status"}] * 3
    assert done.stdout.count("acme/sin1, up") == 2 and "\x1b" not in done.stdout
    failed(done, 1, "it goes")


def test_ping(weft):
    reply = {"schema": 1, "node": {"organization": "acme", "name": "fra1\x1b[31m"},
             "address": "fd00::2", "rtt_ms": 12.34, "reason": None}
    lost = {**reply, "rtt_ms": None, "reason": "no answer"}
    done = weft("ping", "fra1", replies=[validate("ping", reply), validate("ping", lost)] * 2)
    assert done.daemon.requests == [{"command": "ping", "argument": "fra1"}] * 4
    assert done.stdout.count("(fd00::2): 12.3 ms\n") == 2 and "\x1b" not in done.stdout
    assert done.stdout.count("(fd00::2): no answer\n") == 2
    failed(weft("ping", "fra1", replies=[lost] * 4), 1, "no answer")
    failed(weft("ping"), 2, "an argument is missing")


def test_changes(weft):
    done = weft("reload", "--dry-run", "--force",
                replies=[validate("reload", {"schema": 1, "changes": ["link a: added"],
                                             "warnings": ["w"]})])
    assert done.daemon.requests == [{"command": "reload", "dry_run": True, "force": True}]
    assert done.stdout == "warning: w\nlink a: added\n"
    for command, words in (("rekey", "2 links being rekeyed"), ("down", "2 links taken down"),
                           ("up", "2 links brought up")):
        done = weft(command, "acme/fra1",
                    replies=[validate(command, {"schema": 1, "links": 2})])
        assert done.daemon.requests == [{"command": command, "argument": "acme/fra1"}]
        assert done.stdout == f"acme/fra1: {words}\n"
    done = weft("offload", "udp_gso", "off", replies=[validate("offload", {"schema": 1})])
    assert done.daemon.requests == [{"command": "offload", "argument": "udp_gso off"}]
    assert done.returncode == 0 and "until the next start" in done.stdout
    done = weft("log", "debug", replies=[validate("log", {"schema": 1})])
    assert done.daemon.requests == [{"command": "log", "argument": "debug"}]
    assert (done.returncode, done.stdout) == (0, "")


def test_json_is_the_reply(weft):
    reply = status(LINK)
    done = weft("--json", "status", replies=[reply])
    assert done.returncode == 0 and json.loads(done.stdout) == reply
    done = weft("status", "--json", replies=[reply])
    assert json.loads(done.stdout) == reply


def test_a_refusal_is_1(weft):
    refusal = validate("error", {"schema": 1, "error": "no such peer: \033[31mx"})
    failed(weft("up", "x", replies=[refusal]), 1, "no such peer: ?[31mx")
    done = weft("--json", "up", "x", replies=[refusal])
    failed(done, 1, "no such peer")
    assert json.loads(done.stdout) == refusal


@pytest.mark.parametrize("reply", [
    b"", b"\n", b"nonsense\n", b'{"schema":1\n', b'{"schema":2}\n', b"[]\n", b"{}\n",
    b"\x00\xff\n", b"[" * 100000 + b"\n"])
def test_nonsense_is_refused(weft, reply):
    failed(weft("links", replies=[reply]), 1)


def test_names_cannot_drive_the_terminal(weft):
    evil = link("fra1", "connecting", "a\033[2Jb\x9b\r\nc")
    evil["peer"]["name"] = "f\033]0;x\007"
    for command in ("status", "links"):
        done = weft(command, replies=[status(evil)])
        assert done.returncode == 0
        assert not any(ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 for c in done.stdout)


# ---- waiting ----

def test_wait_until_all_are_up(weft):
    replies = [status(link("fra1", "connecting"), LINK)] * 2 + [status(LINK, LINK)]
    done = weft("status", "--wait", "10", replies=replies)
    assert done.returncode == 0 and "2 up of 2" in done.stdout
    assert len(done.daemon.requests) == 4  # three until it is up, one that is shown


def test_wait_leaves_out_what_cannot_come_up(weft):
    done = weft("status", "--wait", "10",
                replies=[status(LINK, link("lax1", "down", "taken down by command"))])
    assert done.returncode == 0


def test_wait_ends_in_time(weft):
    began = time.monotonic()
    done = weft("status", "--wait", "0.6",
                replies=[status(LINK, link("lax1", "connecting", "no answer"))])
    assert 0.5 < time.monotonic() - began < 5
    failed(done, 1, "not up after 0.6 s: acme/lax1:0-0: no answer")
    assert "fra1" not in done.stderr
    assert len(done.daemon.requests) < 8  # asks now and then, not all the time
    failed(weft("status", "--wait", "0.2"), 1, "no weftd answers")


def test_wait_is_not_held_up(weft, tmp_path):
    path = tmp_path / "silent"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        began = time.monotonic()
        done = weft("--socket", path, "status", "--wait", "0.2")
        assert time.monotonic() - began < 5
        failed(done, 1, "does not answer")
