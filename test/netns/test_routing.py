"""Routes that nobody wrote: real daemons announce, measure, take the fastest path and leave it.

   n1, n2, n3 on a switch; where a test has it, n1 and n3 meet on an emulated wire alone.
"""
import time

import pytest

from lab import Failed, Iperf, Mesh, Ping, ping, wait_ping, wait_until

HELLO_S = 1
BABEL = {"static_routes": [], "babel": {"hello": f"{HELLO_S}s"}}
LEARNED_S = 20.0
MOVED_S = 60.0
SLOW_MS = 80
LOADED_S = 15


def lan(i):
    return f"10.1.{i}.0/24", f"fd01:{i}::/64"


def routed(lab, n=3, announce=None, config=None, remarks=None):
    """A mesh without static routes, not started. announce: {node: prefixes}; config: {node: keys}
    beside; remarks: as Mesh.registry().
    """
    mesh = Mesh(lab, n, config=BABEL)
    mesh.setup = {i: dict(BABEL, registry=mesh.registry(remarks),
                          announce=list((announce or {}).get(i, ())), **(config or {}).get(i, {}))
                  for i in mesh.numbers()}
    for i in mesh.numbers():
        mesh.reconfigure(i, **mesh.setup[i])
    return mesh


def change(mesh, i, **more):
    """Other keys in a running node's configuration, read again."""
    mesh.reconfigure(i, **dict(mesh.setup[i], **more)).reload()


def in_table(mesh, i, table=252):
    """{destination: route} of a table of node i, in both families, weft's alone."""
    found = {}
    for family in ("-4", "-6"):
        try:
            routes_in = mesh.spaces[i - 1].ip_json(f"{family} route show table {table} proto 157")
        except Failed:  # a table that never had a route
            continue
        # a lost prefix is held as unreachable for a while (RFC 8966 2.8)
        found.update((route["dst"], route) for route in routes_in if "type" not in route)
    return found


def wait_kernel(mesh, i, prefixes, table=252, timeout=LEARNED_S):
    wait_until(lambda: set(prefixes) <= set(in_table(mesh, i, table)), timeout,
               f"n{i} to have {prefixes} in table {table}")


def routes(mesh, i, prefix):
    """What node i knows of exactly this prefix."""
    return [route for route in mesh.nodes[i - 1].ask("routes", prefix)["routes"]
            if route["prefix"] == prefix]


def way(mesh, i, far):
    """The node that i sends to first on its way to node far, or None."""
    for route in routes(mesh, i, f"{mesh.inner(far)}/32"):
        if route["selected"] and route["via"] and route["metric"] is not None:
            return route["via"]["peer"]["name"]
    return None


def wait_way(mesh, i, far, first, timeout=MOVED_S):
    wait_until(lambda: way(mesh, i, far) == first, timeout, f"n{i} to reach n{far} by {first}",
               every=0.1)


def own_wire(lab, mesh, **settings):
    """Takes n1 <-> n3 off the switch, onto an emulated wire of their own."""
    a, b = mesh.spaces[0], mesh.spaces[2]
    wire = lab.emulated_link(a, b, "192.168.13.1/24", "192.168.13.3/24", **settings)
    for ns, far, gate, own in ((a, 3, "192.168.13.3", 1), (b, 1, "192.168.13.1", 3)):
        ns.route(mesh.outer(far), f"via {gate} src {mesh.outer(own)}")
    return wire


def test_three_nodes_learn_each_other(lab):
    """Addresses and announced networks, in the kernel and reached; at the end all is as before."""
    mesh = routed(lab, announce={i: lan(i) for i in (1, 2, 3)})
    for i, ns in enumerate(mesh.spaces, 1):
        ns.addr(f"10.1.{i}.1/24 fd01:{i}::1/64", "lo")
    before = [ns.snapshot() for ns in mesh.spaces]
    mesh.start()
    mesh.wait_up()
    for i in mesh.numbers():
        others = [j for j in mesh.numbers() if j != i]
        wait_kernel(mesh, i, [prefix for j in others for prefix in
                              (mesh.inner(j), mesh.inner(j, "ip6"), *lan(j))])
        found = in_table(mesh, i)
        assert not set(found) & {mesh.inner(i), *lan(i)}
        assert all(found[mesh.inner(j)]["dev"] == "weft0" for j in others)
        for j in others:
            for address in (mesh.inner(j), mesh.inner(j, "ip6"), f"10.1.{j}.1", f"fd01:{j}::1"):
                wait_ping(mesh.spaces[i - 1], address)
        neighbours = mesh.nodes[i - 1].ask("neighbours")["neighbours"]
        assert sorted(one["peer"]["name"] for one in neighbours) == [f"n{j}" for j in others]
        assert all(one["rtt_ms"] is not None and one["rxcost"] for one in neighbours)
    for node in mesh.nodes:
        node.stop()
    for ns, was in zip(mesh.spaces, before):
        assert not was.diff(ns.snapshot())


def test_a_default_route_comes_in_by_name_alone(lab):
    mesh = routed(lab, announce={2: ["0.0.0.0/0", "::/0", "10.1.2.0/24"]}, config={
        1: {"routing": {"import": [{"prefix": "0.0.0.0/0", "action": "accept"},
                                   {"prefix": "::/0", "action": "accept"}]}}})
    mesh.spaces[1].addr("198.51.100.1/32", "lo")
    mesh.start()
    mesh.wait_up()
    wait_until(lambda: "default" in in_table(mesh, 1, 253), LEARNED_S, "n1's default routes")
    wait_kernel(mesh, 3, ["10.1.2.0/24", mesh.inner(2)])
    # n3 was offered it with the rest, by n2 and by n1, and refused it
    assert not in_table(mesh, 3, 253) and not routes(mesh, 3, "0.0.0.0/0")
    assert "default" not in in_table(mesh, 1)
    assert mesh.spaces[0].ip("-6 route show table 253 proto 157")
    # the underlay does not follow it: links stay, and what is elsewhere goes to n2
    wait_ping(mesh.spaces[0], "198.51.100.1")
    with Ping(mesh.spaces[0], mesh.inner(2)) as running:
        running.wait_received(300)
    assert running.result.lost == 0
    assert len(mesh.nodes[0].links("up")) == 2
    change(mesh, 1, routing={"import": []})
    wait_until(lambda: not in_table(mesh, 1, 253), 5.0, "the default routes to go")


def test_traffic_takes_the_relay_while_the_wire_is_slow(lab):
    mesh = routed(lab)
    wire = own_wire(lab, mesh, delay_ms=SLOW_MS / 2)
    mesh.start()
    mesh.wait_up()
    wait_way(mesh, 1, 3, "n2")
    wait_way(mesh, 3, 1, "n2")
    assert wait_ping(mesh.spaces[0], mesh.inner(3)) < SLOW_MS / 2
    direct = wait_until(
        lambda: [route for route in routes(mesh, 1, f"{mesh.inner(3)}/32")
                 if route["via"]["peer"]["name"] == "n3" and route["via"]["rtt_ms"]],
        10.0, "the direct way to be known too")
    assert not direct[0]["selected"]
    assert direct[0]["via"]["rtt_ms"] >= SLOW_MS
    trace = mesh.nodes[0].ask("trace", mesh.inner(1), mesh.inner(3))
    assert (trace["verdict"], trace["route"]["via"]["peer"]["name"]) == ("link", "n2")
    assert [(hop["node"]["name"], hop["source"]) for hop in trace["hops"]] == [
        ("n1", "local"), ("n2", "probed"), ("n3", "probed")]
    assert 0 < trace["hops"][2]["rtt_ms"] < SLOW_MS
    assert [other["via"]["peer"]["name"] for other in trace["alternatives"]] == ["n3"]
    assert 0 < trace["estimated_rtt_ms"] < SLOW_MS
    assert "relay n2" in mesh.nodes[0].tool("trace", mesh.inner(1), mesh.inner(3)).stdout
    wire.set(delay_ms=0)
    wait_way(mesh, 1, 3, "n3")
    wait_way(mesh, 3, 1, "n1")
    # and again under traffic: both paths live, nothing is lost between them
    with Ping(mesh.spaces[0], mesh.inner(3)) as running:
        running.wait_received(100)
        wire.set(delay_ms=SLOW_MS / 2)
        wait_way(mesh, 1, 3, "n2")
        wait_way(mesh, 3, 1, "n2")
        running.wait_received(100)
        wire.set(delay_ms=0)
        wait_way(mesh, 1, 3, "n3")
        wait_way(mesh, 3, 1, "n1")
        running.wait_received(100)
    assert running.result.lost == 0, running.result


def test_a_queue_of_our_own_moves_nothing(lab):
    """TCP fills a wire with 300 ms of buffer: the round trip that is told grows, the way stays."""
    mesh = routed(lab)
    wire = own_wire(lab, mesh)
    mesh.start()
    mesh.wait_up()
    wait_way(mesh, 1, 3, "n3")
    wait_way(mesh, 3, 1, "n1")
    wire.set(rate_mbit=20, queue_bytes=20e6 / 8 * 0.3)
    time.sleep(4 * HELLO_S)  # round trips of the wire as it is
    load = Iperf(mesh.spaces[0], mesh.spaces[2], mesh.inner(3))
    client = mesh.spaces[0].start("iperf3", "-C", "cubic", "-c", mesh.inner(3),
                                  "-t", LOADED_S, name="load")
    seen, told = set(), 0
    end = time.monotonic() + LOADED_S
    while time.monotonic() < end:
        seen |= {(way(mesh, 1, 3), way(mesh, 3, 1))}
        told = max([told] + [route["via"]["rtt_ms"] or 0
                             for route in routes(mesh, 1, f"{mesh.inner(3)}/32")
                             if route["via"]["peer"]["name"] == "n3"])
        time.sleep(0.2)
    client.wait()
    load.server.stop()
    assert told > 100  # or there was no queue
    assert seen == {("n3", "n1")}


def test_the_relay_dies(lab):
    """kill -9 under 100 packets a second: back in less than two seconds."""
    mesh = routed(lab)
    own_wire(lab, mesh, delay_ms=SLOW_MS / 2)
    mesh.start()
    mesh.wait_up()
    wait_way(mesh, 1, 3, "n2")
    wait_way(mesh, 3, 1, "n2")
    with Ping(mesh.spaces[0], mesh.inner(3)) as running:
        running.wait_received(100)
        mesh.nodes[1].kill()
        wait_way(mesh, 1, 3, "n3", 10.0)
        running.wait_received(200)
    assert running.result.longest_silence_s < 2.0, running.result


@pytest.mark.parametrize("direction", ["both", "ab"])
def test_a_wire_becomes_a_black_hole(lab, direction):
    """Dropped without an error: traffic is on the relay in less than three seconds."""
    mesh = routed(lab)
    wire = own_wire(lab, mesh)
    mesh.start()
    mesh.wait_up()
    wait_way(mesh, 1, 3, "n3")
    wait_way(mesh, 3, 1, "n1")
    wait_kernel(mesh, 1, [mesh.inner(2), mesh.inner(3)])
    with Ping(mesh.spaces[0], mesh.inner(3)) as running:
        running.wait_received(200)
        wire.cut(direction)
        wait_way(mesh, 1, 3, "n2", 10.0)
        running.wait_received(200)
        wire.restore()
        wait_way(mesh, 1, 3, "n3")
        running.wait_received(100)
    assert running.result.longest_silence_s < 3.0, running.result


def test_who_stops_says_so(lab):
    mesh = routed(lab, announce={2: lan(2)})
    mesh.start()
    mesh.wait_up()
    wait_kernel(mesh, 1, [mesh.inner(2), *lan(2)])
    wait_kernel(mesh, 3, [mesh.inner(2), *lan(2)])
    mesh.nodes[1].stop()
    for i in (1, 3):
        wait_until(lambda i=i: not [route for prefix in (*lan(2), f"{mesh.inner(2)}/32")
                                    for route in routes(mesh, i, prefix) if route["selected"]],
                   1.0, f"n{i} to forget n2")
        wait_ping(mesh.spaces[i - 1], mesh.inner(4 - i), timeout=2.0)


def test_a_restart_is_believed_two_hops_away(lab):
    """A partial mesh, n1 - n2 - n3: n3 comes back under the same router-id after a kill -9. With
    the hellos of the default configuration."""
    slow = {"babel": {"hello": "4s"}}
    mesh = routed(lab, announce={3: lan(3)}, config={
        1: dict(slow, peers={"exclude": ["n3"]}), 2: slow,
        3: dict(slow, peers={"exclude": ["org1/n1"]})})
    mesh.start()
    for i, links in ((1, 1), (2, 2), (3, 1)):
        mesh.nodes[i - 1].wait_up(links)
    wait_kernel(mesh, 1, [mesh.inner(3), *lan(3)])
    wait_ping(mesh.spaces[0], mesh.inner(3))
    for _ in range(2):
        with Ping(mesh.spaces[0], mesh.inner(3)) as running:
            running.wait_received(20)
            mesh.nodes[2].kill()
            mesh.nodes[2].start()
            running.wait_received(50, timeout=15.0)
        assert running.result.longest_silence_s < 5.0
        assert way(mesh, 1, 3) == "n2"


def test_filters_by_length_and_organization(lab):
    """import and export, changed while the nodes run."""
    near, far, other = "10.1.1.0/24", "10.1.0.0/16", "10.1.2.0/24"
    mesh = routed(lab, announce={1: [near, far], 2: [other]})
    mesh.start()
    mesh.wait_up()
    wait_kernel(mesh, 3, [near, far, other])
    change(mesh, 3, routing={"import": [
        {"prefix": "10.1.0.0/16", "ge": 20, "le": 28, "organization": "org1", "action": "accept"},
        {"prefix": "10.1.0.0/16", "le": 32, "action": "reject"}]})
    wait_until(lambda: not {far, other} & set(in_table(mesh, 3)), 5.0, "what is refused to go")
    assert {near, mesh.inner(1)} <= set(in_table(mesh, 3))
    change(mesh, 3, routing={"import": []})
    wait_kernel(mesh, 3, [near, far, other], timeout=10.0)
    change(mesh, 1, routing={"export": [{"prefix": near, "action": "reject"}]})
    for i in (2, 3):
        wait_until(lambda i=i: near not in in_table(mesh, i), 10.0, f"n{i} to lose {near}")
        assert far in in_table(mesh, i)
    change(mesh, 1, routing={"export": []})
    wait_kernel(mesh, 2, [near, far], timeout=10.0)


def test_what_is_never_taken(lab):
    """What the registry does not allow, own prefixes, endpoints, link-local and multicast ones."""
    allowed, refused = "10.1.1.0/24", "10.9.0.0/16"
    mesh = routed(lab, announce={
        1: [allowed, refused], 2: [allowed, "10.7.0.0/16"], 3: [f"{Mesh.outer(2)}/32"]},
        remarks={1: {"allow": ["10.66.0.1/32", "fd66::1/128", "10.1.0.0/16"]}})
    mesh.start()
    mesh.wait_up()
    wait_kernel(mesh, 3, [allowed, "10.7.0.0/16", mesh.inner(1)])
    wait_kernel(mesh, 2, [mesh.inner(1), mesh.inner(3)])
    wait_kernel(mesh, 1, ["10.7.0.0/16", mesh.inner(3)])
    assert mesh.nodes[2].drops()["babel-filtered"] > 0
    for i in (2, 3):
        assert not routes(mesh, i, refused)
    for i in (1, 2):
        assert not [route for route in routes(mesh, i, allowed) if route["origin"] == "babel"]
        assert allowed not in in_table(mesh, i)
        assert not routes(mesh, i, f"{mesh.outer(2)}/32") or i == 3
    assert all(len(node.links("up")) == 2 for node in mesh.nodes)


def test_a_leaf_of_the_registry_is_no_relay(lab):
    """transit: false is kept by others, too, when the node itself does not know of it."""
    mesh = routed(lab, announce={2: lan(2)}, remarks={2: {"transit": False}})
    mesh.nodes[1].write_registry(mesh.registry())
    mesh.start()
    mesh.wait_up()
    for i in (1, 3):
        wait_kernel(mesh, i, [mesh.inner(2), *lan(2), mesh.inner(4 - i)])
        wait_until(lambda i=i: mesh.nodes[i - 1].drops()["babel-filtered"] > 0, LEARNED_S,
                   "n2's offers to be refused")
        assert [route["via"]["peer"]["name"] for route in
                routes(mesh, i, f"{mesh.inner(4 - i)}/32")] == [f"n{4 - i}"]
    # with the remark gone it is a relay like any other
    for node in mesh.nodes:
        node.write_registry(mesh.registry())
        node.reload()
    wait_until(lambda: len(routes(mesh, 1, f"{mesh.inner(3)}/32")) == 2, LEARNED_S,
               "a second way to n3")


def test_an_origin_that_the_registry_does_not_know(lab):
    """Where the registry says what a node may announce, a new name gives it no more."""
    mesh = routed(lab, announce={1: ["10.9.0.0/16"]}, remarks={1: {"allow": ["10.1.0.0/16"]}})
    node = dict(mesh.nodes[0].config["node"], router_id="02:00:5e:10:00:00:00:01")
    mesh.reconfigure(1, **mesh.setup[1], node=dict(node, key=mesh.keys[0]))
    mesh.start()
    mesh.wait_up()
    wait_kernel(mesh, 3, [mesh.inner(2)])
    wait_until(lambda: mesh.nodes[2].drops()["babel-filtered"] > 0, LEARNED_S, "a refusal")
    assert not routes(mesh, 3, "10.9.0.0/16") and not routes(mesh, 3, f"{mesh.inner(1)}/32")


def spis(node):
    """What the links of a node are keyed by."""
    return sorted((link["id"], link["ike"]["spi_i"]) for link in node.links("up"))


def test_the_tun_is_deleted_renamed_and_set_down(lab):
    """It is made again, with its addresses, routes and rules: no SA and no neighbour is lost."""
    mesh = routed(lab)
    mesh.start()
    mesh.wait_up()
    wait_kernel(mesh, 1, [mesh.inner(2), mesh.inner(3)])
    ns, node = mesh.spaces[0], mesh.nodes[0]
    wait_ping(ns, mesh.inner(3))
    before, sas = ns.snapshot(), spis(node)
    for script in ("ip link del weft0", "ip link set weft0 down; ip link set weft0 name other0",
                   "ip link set weft0 down; ip link set weft0 mtu 1300"):
        ns.sh(script)
        wait_until(lambda: not [line for line in before.diff(ns.snapshot())
                                if not line.startswith("+")], 2.0, f"all to be back: {script}")
        for family in ("ip4", "ip6"):
            wait_ping(ns, mesh.inner(3, family), timeout=2.0)
            wait_ping(mesh.spaces[2], mesh.inner(1, family), timeout=2.0)
        assert len(node.ask("neighbours")["neighbours"]) == 2
        assert spis(node) == sas
    assert "it is made again" in node.process.log()
    for one in mesh.nodes:
        one.stop()
    assert "weft0" not in repr(ns.snapshot())


def test_routes_for_one_source_alone(lab):
    """RFC 9079: the kernel has them natively in IPv6; whose source is another has no route."""
    prefix, host = "2001:db8:f::/48", "2001:db8:f::1"
    mesh = routed(lab, announce={2: [{"prefix": prefix, "source": f"{Mesh.inner(1, 'ip6')}/128"}]})
    mesh.spaces[1].addr(f"{host}/128", "lo")
    mesh.start()
    mesh.wait_up()
    for i in (1, 3):
        wait_kernel(mesh, i, [prefix, mesh.inner(2, "ip6")])
        assert in_table(mesh, i)[prefix]["from"] == mesh.inner(1, "ip6")
        route, = [one for one in routes(mesh, i, prefix) if one["selected"]]
        assert route["source"] == f"{mesh.inner(1, 'ip6')}/128"
    wait_ping(mesh.spaces[0], host, options=("-I", mesh.inner(1, "ip6")))
    assert mesh.spaces[2].run("ping", "-c1", "-W1", host, check=False).returncode != 0
    for source, verdict in ((1, "link"), (3, "no-route")):
        trace = mesh.nodes[2].ask("trace", mesh.inner(source, "ip6"), host)
        assert trace["verdict"] == verdict


def test_a_route_that_covers_the_underlay(lab):
    """A node announces the network that the tunnels run on."""
    mesh = routed(lab, announce={2: ["10.0.0.0/24", "10.0.0.0/8", "10.7.0.0/16"]})
    mesh.start()
    mesh.wait_up()
    wait_kernel(mesh, 1, ["10.7.0.0/16", mesh.inner(2)])
    wait_ping(mesh.spaces[0], mesh.inner(3))
    with Ping(mesh.spaces[0], mesh.inner(3)) as running:
        running.wait_received(500)
    assert running.result.lost == 0
    for i in (1, 3):
        assert len(mesh.nodes[i - 1].links("up")) == 2
        # the host's own network is reached as before, not through the mesh
        assert mesh.spaces[i - 1].ip_json(f"route get {mesh.outer(4 - i)}")[0]["dev"] == "eth0"
        ping(mesh.spaces[i - 1], mesh.outer(4 - i))
