"""strongSwan as the peer, and a NAT between the two whose mapping changes.

      inside -- 10.3.0.1 r 10.4.0.1, 10.4.0.7 -- outside

strongSwan takes ESP from anywhere but sends to where IKE last came from: it follows weft by the
liveness check that weft makes when nothing comes back. weft follows strongSwan by the first packet
from elsewhere, when an echo or, where the host answers none, IKE's liveness check proves it.
"""
import pytest

from lab import Beside, Ping, wait_ping, wait_until

DPD_S = 2
PACE_S = 0.01  # between pings
FIRST, SECOND, THIRD = "10.4.0.1:20001", "10.4.0.1:20500", "10.4.0.7:30000"


class Natted(Beside):
    """Beside, with the one called `inside` behind a NAT; it makes the first contact."""

    def __init__(self, lab, inside):
        self.router = lab.ns("r", forward=True)
        self.inside = 1 if inside == "weft" else 2
        ours = inside == "weft"
        # the one outside does not ask by itself
        super().__init__(lab, "bookworm", inside, link=self.join, proposals=None,
                         esp_proposals=None, config={"ike": {"dpd": f"{DPD_S if ours else 60}s"}},
                         settings={"dpd_delay": 60, "remote_addrs": "%any"} if ours
                         else {"dpd_delay": DPD_S})
        self.map(FIRST)

    def join(self, mesh):
        for i, ns in enumerate(mesh.spaces, 1):
            net, more = ("10.3.0", "") if i == self.inside else ("10.4.0", " 10.4.0.7/24")
            self.router.lab.veth(self.router, ns, f"{net}.1/24{more}",
                                 f"{net}.2/24 {mesh.outer(i)}/32")
            self.router.route(f"{mesh.outer(i)}/32", f"via {net}.2")
            ns.route("default", f"via {net}.1")

    def map(self, endpoint):
        """As what the outside sees the inside from now on."""
        self.router.map_as({self.mesh.outer(self.inside): endpoint})

    def wait_seen(self, endpoint, timeout):
        """Waits until the outside says so."""
        address, port = endpoint.split(":")

        def seen():
            if self.inside == 2:
                remote = self.link()["remote"]
                return (remote["address"], remote["port"]) == (address, int(port))
            return all((sa["remote-host"], sa["remote-port"]) == (address, port)
                       for sa in self.peer.sas())
        wait_until(seen, timeout, f"the mapping {endpoint} to be followed")

    def ping(self):
        return Ping(self.mesh.spaces[self.inside - 1], self.mesh.inner(3 - self.inside), PACE_S)


@pytest.mark.parametrize("echoes", [True, False], ids=["echoes", "mute"])
@pytest.mark.parametrize("inside", ["weft", "strongswan"])
def test_a_mapping_that_changes(lab, inside, echoes):
    """Under traffic from the inside: another port, then another address. Then in silence."""
    pair = Natted(lab, inside)
    if not echoes:
        pair.b.sysctl("net.ipv6.icmp.echo_ignore_all", 1)
    pair.start()
    pair.wait_seen(FIRST, 1.0)
    wait_ping(pair.a, pair.mesh.inner(2))
    began = pair.link()["ike"]["spi_i"]
    for outside in (SECOND, THIRD):
        with pair.ping() as running:
            running.wait_received(20)
            pair.map(outside)
            pair.wait_seen(outside, 5.0)
            running.wait_received(50)
        print(f"{inside} inside, echoes {echoes}: {running.result}")
        # sooner than what no echo answers is taken for dead
        assert running.result.lost < (150 if inside == "weft" else 100)
    assert "down for routing" not in pair.weft.process.log()
    for outside in (FIRST, SECOND):
        pair.map(outside)
        pair.wait_seen(outside, 5 * DPD_S)
        for ns, far in ((pair.b, 1), (pair.a, 2)):
            wait_ping(ns, pair.mesh.inner(far), timeout=2.0)
    assert pair.wait_agreed()["ike"]["spi_i"] == began
