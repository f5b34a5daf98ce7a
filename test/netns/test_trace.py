"""The hops of a trace, asked of real daemons and real kernels: a chain of relays and a LAN behind
its last node, while other clients of the daemon are served."""
import threading
import time

from lab import Mesh, wait_ping

LAN = {"ip4": ("192.0.2.1/24", "192.0.2.9/24"), "ip6": ("2001:db8:9::1/64", "2001:db8:9::9/64")}
ANNOUNCED = ["192.0.2.0/24", "2001:db8:9::/64"]


def hops(told):
    return [(hop["node"] and hop["node"]["name"], hop["address"], hop["source"])
            for hop in told["hops"]]


def chain(lab):
    """n1 - n2 - n3 and a host behind n3; n1 and n3 know each other through n2 alone."""
    mesh = Mesh(lab, 3)
    host = lab.ns("host")
    lab.lan({mesh.spaces[2]: " ".join(LAN[f][0] for f in LAN),
             host: " ".join(LAN[f][1] for f in LAN)}, label="behind")
    host.ip("route add default via 192.0.2.1")
    host.ip("-6 route add default via 2001:db8:9::1")
    mesh.spaces[2].sysctl("net.ipv4.ip_forward", 1)
    mesh.spaces[2].sysctl("net.ipv6.conf.all.forwarding", 1)
    mesh.reconfigure(1, static_routes=[], peers={"include": ["n2"]})
    mesh.reconfigure(2, static_routes=[])
    mesh.reconfigure(3, static_routes=[], peers={"include": ["n2"]}, announce=ANNOUNCED)
    mesh.start()
    return mesh


def test_each_hop_answers(lab):
    mesh = chain(lab)
    for family in ("ip4", "ip6"):
        own, target = mesh.inner(1, family), LAN[family][1].split("/")[0]
        wait_ping(mesh.spaces[0], target, timeout=30, options=("-I", own))
        told = mesh.nodes[0].ask("trace", own, target)
        assert hops(told) == [
            ("n1", own, "local"), ("n2", mesh.inner(2, family), "probed"),
            ("n3", mesh.inner(3, family), "probed"), (None, target, "probed")], told
        assert told["reason"].endswith("the destination answers")
        assert all(0 < hop["rtt_ms"] < 2000 for hop in told["hops"][1:])
    shown = mesh.nodes[0].tool("trace", mesh.inner(1), mesh.inner(3)).stdout
    assert f"org3/n3  {mesh.inner(3)}" in shown and "probed" in shown

    assert f"org3/n3 ({mesh.inner(3, 'ip6')}): " in mesh.nodes[0].tool("ping", "n3").stdout

    # to a host that is not there; meanwhile others are served
    replies = []
    asking = threading.Thread(target=lambda: replies.append(mesh.nodes[0].ask(
        "trace", "203.0.113.7", "192.0.2.77")))
    asking.start()
    served, begun = 0, time.monotonic()
    while asking.is_alive():
        mesh.nodes[0].ask("version")
        served += 1
    asking.join()
    assert served > 5 and time.monotonic() - begun < 8
    told, = replies
    assert hops(told)[:3] == [
        ("n1", mesh.inner(1), "local"), ("n2", mesh.inner(2), "probed"),
        ("n3", mesh.inner(3), "probed")], told
    assert "the destination answers" not in told["reason"]
    assert f"hops were asked from {mesh.inner(1)}" in told["reason"]
