"""A weft node beside a strongSwan: the two ends of one link, and what goes through it."""
from .core import Failed, wait_until
from .kernel_swan import KernelHost, KernelSwan
from .mesh import Mesh
from .strongswan import StrongSwan
from .traffic import Ping, tcp_transfer, wait_ping

WEFT, STRONGSWAN = 1, 2
FAMILIES = ("ip4", "ip6")


class Beside:
    """weft is n1 and strongSwan n2 of a Mesh of two; both are configured, none is started.

    root: as of StrongSwan, or a KernelHost, whose charon it then is and n2 a host behind it.
    initiator: which of them makes the first contact. For "strongswan" weft's registry has no
    address for it, so that weft can only answer. config: of the weft node. link: settings of an
    emulated wire. connection: further arguments of Connection. weft and peer are the daemons, a and
    b their namespaces.
    """

    def __init__(self, lab, root, initiator="weft", underlay="ip4", config=None, charon=None,
                 link=None, **connection):
        kernel = isinstance(root, KernelHost)
        self.mesh = Mesh(lab, 2, underlay, config, link=root.join if kernel else link)
        self.initiator = initiator
        self.weft = self.mesh.nodes[0]
        self.a, self.b = self.mesh.spaces
        if initiator == "strongswan":
            self.weft.write_registry(self.registry_without_address())
        connection = self.mesh.connection(STRONGSWAN, WEFT, **connection)
        if kernel:
            self.peer = KernelSwan(root, connection, charon=charon)
        else:
            self.peer = StrongSwan(self.b, root, connection, charon=charon)

    def registry_without_address(self):
        """The registry as weft gets it from a peer whose address nobody knows."""
        entries = self.mesh.registry()
        for endpoint in entries[STRONGSWAN - 1]["nodes"][0]["endpoints"]:
            del endpoint["address"]
        return entries

    def start_peer(self):
        """Starts charon and gives its tunnel device addresses and routes."""
        inner = self.mesh.inner
        self.peer.start()
        self.peer.tunnel(f"{inner(STRONGSWAN)}/32 {inner(STRONGSWAN, 'ip6')}/128",
                         [f"{inner(WEFT)}/32", f"{inner(WEFT, 'ip6')}/128"])

    def start(self):
        """Starts both and brings the link up by the one that is to initiate."""
        self.start_peer()
        self.weft.start()
        if self.initiator == "strongswan":
            self.peer.initiate()
        self.wait_up()
        return self

    def wait_up(self, timeout=10.0):
        """Waits until both ends have one IKE SA and one child; returns (weft's link, charon's)."""
        self.weft.wait_up(1, timeout)
        return self.link(), self.peer.wait_up(timeout=timeout)[0]

    def link(self):
        """weft's link to the strongSwan."""
        link, = self.weft.links()
        return link

    def reason(self):
        return self.link()["reason"] or ""

    def kex(self):
        """The key exchanges of (the IKE SA, the child that is sent on), as weft reports them."""
        link = self.link()
        return link["ike"]["key_exchanges"], link["children"][0]["key_exchanges"]

    def wait_reach(self, timeout=5.0):
        """Waits for a ping each way in each family."""
        for ns, far in ((self.a, STRONGSWAN), (self.b, WEFT)):
            for family in FAMILIES:
                wait_ping(ns, self.mesh.inner(far, family), timeout)

    def check_traffic(self, size=300_000):
        """Pings and TCP each way in each family; nothing may be lost."""
        self.wait_reach()
        for one, other, far in ((self.a, self.b, STRONGSWAN), (self.b, self.a, WEFT)):
            for family in FAMILIES:
                tcp_transfer(one, other, self.mesh.inner(far, family), size)

    def pings(self):
        """Two pings that run, one each way, IPv4 and IPv6; use it as a context."""
        return _Pings((self.a, self.mesh.inner(STRONGSWAN)),
                      (self.b, self.mesh.inner(WEFT, "ip6")))

    def wait_agreed(self, timeout=5.0):
        """Waits until both ends name the same IKE SA and the same SPIs; returns weft's link."""
        def agreed():
            link, sas = self.link(), self.peer.sas()
            if link["state"] != "up" or len(sas) != 1:
                raise Failed(f"{link} {sas}")
            child = link["children"][0]
            ours = [link["ike"][key] for key in ("spi_i", "spi_r")]
            theirs = [sas[0][key] for key in ("initiator-spi", "responder-spi")]
            installed = [(one["spi-out"], one["spi-in"]) for one in sas[0]["children"]
                         if one["state"] == "INSTALLED"]
            if (_numbers(ours) == _numbers(theirs)
                    and [_numbers(pair) for pair in installed]
                    == [_numbers((child["spi_in"], child["spi_out"]))]):
                return link
            raise Failed(f"{link} {sas}")
        return wait_until(agreed, timeout, "one IKE SA and one pair, the same on both ends",
                          every=0.05)


def _numbers(texts):
    return [int(text, 16) for text in texts]


class _Pings:
    def __init__(self, *ends):
        self.running = [Ping(ns, address) for ns, address in ends]

    def __enter__(self):
        self.wait_received(10)
        return self

    def __exit__(self, *_):
        for ping in self.running:
            ping.stop()

    def wait_received(self, count, timeout=10.0):
        for ping in self.running:
            ping.wait_received(count, timeout)

    @property
    def results(self):
        return [ping.result for ping in self.running]

    @property
    def lost(self):
        return sum(result.lost for result in self.results)

    @property
    def longest_silence_s(self):
        return max(result.longest_silence_s for result in self.results)
