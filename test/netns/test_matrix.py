"""The data path does the same whatever it is built of: back ends, threads, helpers, offloads."""
import sys
from pathlib import Path

import pytest
from test_dataplane import OFFLOADS, checksum_errors

import lab as lab_room
from lab import Mesh

ECHO = Path(lab_room.__file__).with_name("echo_end.py")
PORT = 7300
BACKENDS = {"ipsec-mb": "Intel IPsec-MB", "openssl": "OpenSSL"}
# of these each pair of values is met, as each row comes with its opposite too
CHOICES = (("threads", (1, 2)), ("helpers", (0, 1)), ("crypto", tuple(BACKENDS)),
           ("underlay", ("ip4", "ip6")))
ROWS = ((0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0))
# what the kernel says of its own on a new device; what TCP that is faster than the tunnel is told
EXPLAINED = {"multicast", "link-local", "punt-unexpected", "aqm"}


def combinations():
    """Each offload off, none and all, with each value of the choices; pairs, not the product."""
    sets = [(), *((name,) for name in OFFLOADS), OFFLOADS]
    for number, off in enumerate(sets):
        for flip in (0, 1):
            row = ROWS[number % len(ROWS)]
            yield off, {name: values[bit ^ flip] for (name, values), bit in zip(CHOICES, row)}


def names(combination):
    off, how = combination
    without = "all" if off == OFFLOADS else "-".join(off) or "none"
    return f"no-{without}-{how['threads']}t{how['helpers']}h-{how['crypto']}-{how['underlay']}"


def test_each_pair_of_choices_is_met():
    met = set()
    for off, how in combinations():
        facts = [("off", off), *how.items()]
        met |= {(a, b) for a in facts for b in facts if a < b}
    values = [[("off", off) for off in {off for off, _ in combinations()}],
              *([(name, value) for value in of] for name, of in CHOICES)]
    for i, some in enumerate(values):
        for others in values[i + 1:]:
            for pair in ((a, b) for a in some for b in others):
                assert tuple(sorted(pair, key=str)) in {tuple(sorted(p, key=str)) for p in met}


@pytest.mark.parametrize("combination", combinations(), ids=names)
def test_what_is_sent_comes_back(lab, combination):
    """ICMP, UDP of all sizes, fragments, batches and TCP, both ways and families, byte for byte;
    and no drop that would have to be explained."""
    off, how = combination
    plane = {key: how[key] for key in ("threads", "helpers", "crypto")}
    plane["offload"] = {name: "off" for name in off}
    mesh = Mesh(lab, 2, how["underlay"], config={"plane": plane}).start()
    mesh.wait_reach()
    one, two = mesh.spaces
    before = [node.drops() for node in mesh.nodes]
    two.start(sys.executable, ECHO, "serve", PORT, name="echo").wait_log("^ready$")
    mtu = mesh.nodes[0].links("up")[0]["mtu"]
    done = one.run(sys.executable, ECHO, "try", PORT, mtu, mesh.inner(2), mesh.inner(2, "ip6"))
    print(f"\n{names(combination)}: {done.stdout.strip()}")
    for node, old in zip(mesh.nodes, before):
        status = node.status()
        assert (status["threads"], status["helpers"]) == (how["threads"], how["helpers"])
        assert status["crypto"].startswith(BACKENDS[how["crypto"]])
        drops = {reason: count - old[reason] for reason, count in node.drops().items()}
        assert {reason for reason, count in drops.items() if count} <= EXPLAINED, drops
        assert not any(checksum_errors(node.ns).values())
        tun = node.ns.ip_json(f"-s link show {status['tun']['name']}")[0]["stats64"]
        # its queue may be too short for TCP where the daemon does not get the processor
        assert tun["rx"]["dropped"] == tun["rx"]["errors"] == tun["tx"]["errors"] == 0
