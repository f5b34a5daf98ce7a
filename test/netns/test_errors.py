"""What cannot work is said in one clear line, and nothing is half done."""
import base64
import os
import re
import shutil
import subprocess
import sys

import pytest

from lab import Mesh, build_folder, ping, tcp_transfer, wait_until
from lab.core import run

NOBODY = 65534
# /dev/net/tun open to everybody, as udev makes it
OPEN_TUN = """
mount -t tmpfs none /dev/net
mknod -m 666 /dev/net/tun c 10 200
exec "$@"
"""
GARBAGE = """
import random, socket, sys
rng, sock = random.Random(5), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(10000):
    data = rng.randbytes(rng.randrange(400))
    sock.sendto(bytes(4) + data if number % 2 else data, (sys.argv[1], int(sys.argv[2])))
    if number % 100 == 0:
        sock.sendto(b"", (sys.argv[1], int(sys.argv[2])))
"""
HOLD_PORT = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("10.0.0.1", 13000))
print("ready", flush=True)
input()
"""


@pytest.fixture
def mesh(lab):
    return Mesh(lab, 2)


def lines_of(text):
    return [line for line in text.splitlines() if line.strip()]


def refused(node, pattern, argv=None, check=True):
    """The start fails with 1 and one line that matches, as do the checks; nothing is left."""
    before = node.ns.snapshot()
    process = (node.ns.start(*argv, name=f"weftd-{node.name}") if argv
               else node.start(wait=None).process)
    assert process.wait(10.0) == 1, process.log()
    errors = lines_of(process.log())
    assert len(errors) == 1 and re.search(pattern, errors[0]), process.log()
    assert before.diff(node.ns.snapshot()) == []
    assert not node.socket.exists()
    if not check:
        return
    checked = node.check()
    assert checked.returncode == 1
    assert len(lines_of(checked.stderr)) == 1 and re.search(pattern, checked.stderr), checked
    by_tool = node.ns.run(build_folder() / "weft", "config", "check", node.config_path,
                          check=False)
    assert by_tool.returncode == 1
    assert by_tool.stderr == checked.stderr


def openssl_key(mesh, name, *words):
    path = mesh.lab.dir / f"{name}.pem"
    run(["openssl", "genpkey", *words, "-out", path])
    return str(path)


def with_key(mesh, path):
    return mesh.reconfigure(1, node={**mesh.config(1)["node"], "key": str(path)})


def test_a_good_configuration_passes_the_check(mesh):
    node = mesh.nodes[0]
    checked = node.check()
    assert (checked.returncode, checked.stderr) == (0, "")
    assert node.ns.run(build_folder() / "weft", "config", "check",
                       node.config_path).returncode == 0
    assert not node.socket.exists()


def test_key_that_is_not_there(mesh):
    refused(with_key(mesh, "/nonexistent/key.pem"),
            r"weft\.yaml:\d+:\d+: .*/nonexistent/key\.pem.*weft keygen")


def test_key_that_cannot_be_read(mesh):
    (mesh.lab.dir / "folder.pem").mkdir()
    refused(with_key(mesh, mesh.lab.dir / "folder.pem"),
            r"weft\.yaml:\d+:\d+: .*folder\.pem.*directory")


@pytest.mark.parametrize("name, words", [
    ("RSA", ["-algorithm", "RSA"]),
    ("EC", ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]),
    ("X25519", ["-algorithm", "X25519"])])
def test_key_of_another_type(mesh, name, words):
    refused(with_key(mesh, openssl_key(mesh, name, *words)), rf"{name}\.pem: .*{name}.*Ed25519")


def test_key_that_is_none(mesh):
    path = mesh.lab.dir / "text.pem"
    path.write_text("no key at all\n")
    refused(with_key(mesh, path), r"text\.pem: .*PKCS#8")


@pytest.mark.parametrize("more, pattern", [
    ({"speed": "high"}, r"weft\.yaml:\d+:\d+: .*speed"),
    ({"tun": {"name": "weft0", "mtuu": 1400}}, r"weft\.yaml:\d+:\d+: .*mtuu"),
    ({"tun": {"addresses": ["10.66.0.300/32"]}}, r"weft\.yaml:\d+:\d+: .*10\.66\.0\.300/32"),
    ({"announce": ["10.1.0.0/33"]}, r"weft\.yaml:\d+:\d+: .*10\.1\.0\.0/33"),
    ({"static_routes": [{"prefix": "10.1.0.1/16", "node": "n2"}]},
     r"weft\.yaml:\d+:\d+: .*10\.1\.0\.1/16"),
    ({"endpoints": []}, r"weft\.yaml:\d+:\d+: .*endpoint"),
    ({"ike": {"lifetime": "4"}}, r"weft\.yaml:\d+:\d+: .*lifetime"),
])
def test_configuration_that_is_wrong(mesh, more, pattern):
    refused(mesh.reconfigure(1, **more), pattern)


def test_configuration_that_is_not_there(mesh):
    node = mesh.nodes[0]
    node.config_path.unlink()
    refused(node, r"weft\.yaml: .*No such file")


def test_registry_that_is_not_there(mesh):
    refused(mesh.reconfigure(1, registry="/nonexistent/registry.json"),
            r"weft\.yaml:\d+:\d+: .*/nonexistent/registry\.json.*No such file")


@pytest.mark.parametrize("text", ['[{"organization": "x",', "{}", "", "7"])
def test_registry_that_is_none(mesh, text):
    node = mesh.nodes[0]
    node.registry_path.write_text(text)
    refused(node, r"registry\.json:\d+:\d+: ")


def test_a_broken_entry_never_takes_the_others_down(mesh):
    """Also two nodes of one identity: the first counts, the others are named."""
    entries = mesh.registry()
    entries[1]["nodes"].append(entries[1]["nodes"][0])
    entries.append({"organization": "broken", "public_key": "none", "nodes": []})
    for node in mesh.nodes:
        node.write_registry(entries)
    mesh.start()
    mesh.wait_up()
    log = mesh.nodes[0].process.log()
    assert re.search(r"registry\.json:\d+:\d+: .*n2", log)
    assert re.search(r"registry\.json:\d+:\d+: public_key", log)
    checked = mesh.nodes[0].check()
    assert checked.returncode == 0
    assert len(lines_of(checked.stderr)) == 2


def test_a_port_in_use_names_its_owner(mesh):
    node = mesh.nodes[0]
    holder = node.ns.start(sys.executable, "-c", HOLD_PORT, name="holder", stdin=subprocess.PIPE)
    holder.wait_log("ready")
    refused(node, rf"13000.*{holder.pid}", check=False)
    # whoever takes the port has it again at once
    holder.kill()
    node.start()


def test_a_second_daemon_is_refused_and_harms_nothing(mesh):
    mesh.start()
    mesh.wait_up()
    first = mesh.nodes[0]
    before = first.ns.snapshot()
    second = first.ns.start(build_folder() / "weftd", "-c", first.config_path, name="second")
    assert second.wait(10.0) == 1
    assert len(lines_of(second.log())) == 1
    assert before.diff(first.ns.snapshot()) == []
    ping(first.ns, mesh.inner(2))
    assert first.links("up")


def test_no_tun_device(mesh):
    node = mesh.nodes[0]
    script = 'mount -t tmpfs none /dev/net; exec "$@"'
    refused(node, r"/dev/net/tun", check=False,
            argv=["unshare", "--mount", "sh", "-c", script, "sh", build_folder() / "weftd",
                  "-c", node.config_path])


def as_nobody(node, *capabilities):
    """argv of weftd as another user with these capabilities alone."""
    for path in (node.config_path, node.registry_path, node.config["node"]["key"], node.dir):
        os.chown(path, NOBODY, NOBODY)
    program = node.dir / "weftd"  # the build folder may be closed to others
    shutil.copy(build_folder() / "weftd", program)
    held = "".join(f",+{name}" for name in capabilities)
    return ["unshare", "--mount", "sh", "-ec", OPEN_TUN, "sh",
            "setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
            *(f"--{kind}=-all{held}" for kind in ("inh-caps", "ambient-caps", "bounding-set")),
            program, "-c", node.config_path]


def test_no_privilege_names_the_capability(mesh):
    refused(mesh.nodes[0], "CAP_NET_ADMIN", argv=as_nobody(mesh.nodes[0]), check=False)


def test_cap_net_admin_is_enough(mesh):
    """As another user, with that capability alone, and taken back in full."""
    before = mesh.spaces[0].snapshot()
    node = mesh.nodes[0]
    node.process = node.ns.start(*as_nobody(node, "net_admin"), name="weftd-nobody")
    node.wait_answer()
    mesh.nodes[1].start()
    mesh.wait_up()
    mesh.wait_reach()
    tcp_transfer(*mesh.spaces, mesh.inner(2), size=1_000_000)
    status = dict(line.split(":\t") for line in open(f"/proc/{node.process.pid}/status",
                                                     encoding="ascii") if ":\t" in line)
    assert set(status["Uid"].split()) == {str(NOBODY)}
    assert int(status["CapEff"], 16) & ~(1 << 12) == 0
    node.reload()
    node.stop()
    assert before.diff(mesh.spaces[0].snapshot()) == []
    assert not node.socket.exists()


def test_a_folder_for_the_control_socket_that_is_missing(mesh):
    node = mesh.reconfigure(1, control={"socket": str(mesh.lab.dir / "missing" / "sock")})
    refused(node, r"missing.*(No such file|not exist)", check=False)


def test_a_control_socket_that_was_left_is_replaced(mesh):
    mesh.start()
    mesh.nodes[0].kill()
    assert mesh.nodes[0].socket.exists()
    mesh.nodes[0].start()
    mesh.wait_up()


def test_garbage_is_counted_and_changes_nothing(mesh):
    """Anything at all, with and without the non-ESP marker, at the port of a working link."""
    mesh.start()
    mesh.wait_one_pair()
    mesh.wait_reach()
    pairs = mesh.pairs()
    mesh.spaces[1].run(sys.executable, "-c", GARBAGE, mesh.outer(1), 13000)
    wait_until(lambda: sum(mesh.nodes[0].drops().values()) >= 1000, 5.0, "the drops to be counted")
    assert mesh.pairs() == pairs
    ping(mesh.spaces[1], mesh.inner(1))


def descriptors(pid):
    """{descriptor: its flags}, of a process."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii") as info:
                found[int(name)] = int(re.search(r"^flags:\s+(\d+)", info.read(), re.M)[1], 8)
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def test_descriptors(mesh):
    """All are close-on-exec, and reloading leaves none behind."""
    mesh.start()
    mesh.wait_up()
    node = mesh.nodes[0]
    first = descriptors(node.process.pid)
    assert [fd for fd, flags in first.items() if fd > 2 and not flags & os.O_CLOEXEC] == []
    whole, less = mesh.config(1), mesh.config(1, static_routes=[], peers={"exclude": ["*"]})
    for _ in range(25):
        for config in (less, whole):
            node.configure(config)
            node.reload()
    wait_until(lambda: len(descriptors(node.process.pid)) == len(first), 5.0,
               f"{len(first)} descriptors again")
    for _ in range(20):
        node.configure({**whole, "nonsense": 1})
        assert node.tool("reload", check=False).returncode == 1
    wait_until(lambda: len(descriptors(node.process.pid)) == len(first), 5.0,
               f"{len(first)} descriptors still")


def forms(key_path):
    """A private key raw, in hex, in base64, and as the lines of its file."""
    der = run(["openssl", "pkey", "-in", key_path, "-outform", "DER"], check=False)
    pem = open(key_path, encoding="ascii").read()
    raw = base64.b64decode("".join(pem.splitlines()[1:-1]))[-32:]
    assert der.returncode == 0 and len(raw) == 32
    return [raw, raw.hex().encode(), raw.hex().upper().encode(), base64.b64encode(raw),
            "".join(pem.splitlines()[1:-1]).encode(), raw[:16].hex().encode()]


def test_keys_are_never_told(mesh):
    """At the highest level of the log, in status, in messages about bad input."""
    for i in (1, 2):
        mesh.reconfigure(i, log="debug")
    mesh.start()
    mesh.wait_up()
    for words in (["rekey", "n2"], ["down", "n2"], ["up", "n2"]):
        mesh.nodes[0].tool(*words)
    mesh.wait_up()
    said = [node.process.log_path.read_bytes() for node in mesh.nodes]
    for node in mesh.nodes:
        for words in (["status"], ["links"], ["routes"], ["drops"], ["--json", "status"]):
            said.append(node.tool(*words).stdout.encode())
    # a key in the place of its path, of a name and of the whole file
    pem = mesh.keys[0].path.read_text()
    inline = mesh.nodes[1]
    for config in (mesh.config(2, node={**mesh.config(2)["node"], "key": pem}),
                   mesh.config(2, node={**mesh.config(2)["node"], "name": pem.splitlines()[1]}),
                   mesh.config(2, static_routes=[{"prefix": pem, "node": "n1"}])):
        inline.configure(config)
        done = inline.check()
        said += [done.stdout.encode(), done.stderr.encode()]
    shutil.copy(mesh.keys[0].path, inline.config_path)
    done = inline.check()
    assert done.returncode == 1
    said += [done.stdout.encode(), done.stderr.encode()]
    for key in mesh.keys:
        for form in forms(key.path):
            assert not [text for text in said if form in text], form
