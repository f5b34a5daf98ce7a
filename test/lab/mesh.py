"""A mesh of weft nodes on one switch: what most scenarios start from.

Node i (from 1) is namespace and name n<i>, underlay 10.0.0.<i> and fd00::<i>, in the tunnel
10.66.0.<i> and fd66::<i>, reached by static routes. Each node is an organization of its own,
org<i>, so that any of them can be given to another daemon with a key of its own.
"""
from .core import wait_until
from .strongswan import Connection
from .traffic import wait_ping
from .weft import Key, Weftd, registry, registry_node

PORT = 13000


class Mesh:
    """n nodes, not started. underlay: "ip4", "ip6" or both separated by a space: an endpoint each.

    config: further or other keys of every node's configuration. link: what two nodes are joined by
    instead of a switch: "veth", a wire, settings of an emulated link, which is then `wire`, or a
    function that joins the spaces of the mesh it is given. label: before the namespaces' names,
    where a lab has several meshes.
    nodes is the list of Weftd, spaces that of their namespaces.
    """

    def __init__(self, lab, n, underlay="ip4", config=None, mtu=1500, link=None, label=""):
        self.lab, self.n, self.families = lab, n, underlay.split()
        self.keys = [Key(lab.dir, f"org{i}") for i in self.numbers()]
        self.spaces = [lab.ns(f"{label}n{i}") for i in self.numbers()]
        addresses = {ns: f"{self.outer(i)}/24 {self.outer(i, 'ip6')}/64"
                     for i, ns in enumerate(self.spaces, 1)}
        if link is None:
            lab.lan(addresses, mtu=mtu, label=f"{label}lan")
        elif callable(link):
            link(self)
        elif link == "veth":
            lab.veth(*self.spaces, *addresses.values(), mtu=mtu)
        else:
            self.wire = lab.emulated_link(*self.spaces, *addresses.values(), **link)
        self.nodes = [Weftd(ns, self.config(i, **(config or {})))
                      for i, ns in enumerate(self.spaces, 1)]

    def numbers(self):
        return range(1, self.n + 1)

    @staticmethod
    def outer(i, family="ip4"):
        return f"10.0.0.{i}" if family == "ip4" else f"fd00::{i}"

    @staticmethod
    def inner(i, family="ip4"):
        return f"10.66.0.{i}" if family == "ip4" else f"fd66::{i}"

    @staticmethod
    def identity(i, serial=0):
        """(organization, common name, serial), as ranet_dn() and Connection want it."""
        return f"org{i}", f"n{i}", str(serial)

    def registry(self, remarks=None):
        """The registry of all nodes; remarks: {number: dict for remarks.weft}."""
        return registry(*(
            (f"org{i}", self.keys[i - 1], [registry_node(
                f"n{i}", *((serial, self.outer(i, family), PORT + serial)
                           for serial, family in enumerate(self.families)),
                **(remarks or {}).get(i, {}))])
            for i in self.numbers()))

    def config(self, i, **more):
        """The configuration of node i as a dict, with the keys of `more` in place of its own."""
        config = {
            "node": {"organization": f"org{i}", "name": f"n{i}", "key": self.keys[i - 1]},
            "registry": self.registry(),
            "endpoints": [{"serial": str(serial), "family": family,
                           "address": self.outer(i, family), "port": PORT + serial}
                          for serial, family in enumerate(self.families)],
            "tun": {"addresses": [f"{self.inner(i)}/32", f"{self.inner(i, 'ip6')}/128"]},
            "static_routes": [{"prefix": f"{self.inner(j, family)}/{bits}", "node": f"n{j}"}
                              for j in self.numbers() if j != i
                              for family, bits in (("ip4", 32), ("ip6", 128))],
        }
        return {**config, **more}

    def reconfigure(self, i, **more):
        """Writes another configuration for node i, as config(); returns its Weftd."""
        node = self.nodes[i - 1]
        node.configure(self.config(i, **more))
        return node

    def connection(self, local, remote, serial=0, **more):
        """A strongSwan Connection by which node `local` would be strongSwan instead of weft.

        more: further arguments of Connection. Give it to StrongSwan(mesh.spaces[local - 1], …)
        and do not start mesh.nodes[local - 1].
        """
        family = self.families[serial]
        return Connection(self.identity(local, serial), self.identity(remote, serial),
                          self.keys[local - 1], self.keys[remote - 1],
                          self.outer(local, family), self.outer(remote, family),
                          local_port=PORT + serial, remote_port=PORT + serial, **more)

    def start(self):
        """Starts all nodes at once, then waits until each answers."""
        for node in self.nodes:
            node.start(wait=None)
        for node in self.nodes:
            node.wait_answer()
        return self

    def links_each(self):
        return (self.n - 1) * len(self.families)

    def wait_up(self, timeout=10.0):
        """Waits until every node has all its links up."""
        for node in self.nodes:
            node.wait_up(self.links_each(), timeout)

    def wait_reach(self, timeout=10.0, families=("ip4", "ip6")):
        """Waits until every node has pinged every other through the tunnel."""
        for i, ns in enumerate(self.spaces, 1):
            for j in self.numbers():
                for family in families if i != j else ():
                    wait_ping(ns, self.inner(j, family), timeout)

    def pairs(self):
        """{(lower node, higher node, serials): what each end reports for this link}.

        That is the IKE SA's two SPIs and the SPIs of all children. The value is a set: it has
        one element when both ends report the same.
        """
        found = {}
        for i, node in enumerate(self.nodes, 1):
            for link in node.links():
                j = int(link["peer"]["name"][1:])
                key = (min(i, j), max(i, j), tuple(sorted((link["local"]["serial"],
                                                           link["peer"]["serial"]))))
                ike = link["ike"] and (link["ike"]["spi_i"], link["ike"]["spi_r"])
                spis = tuple(sorted(spi for child in link["children"]
                                    for spi in (child["spi_in"], child["spi_out"])))
                found.setdefault(key, set()).add((ike, spis))
        return found

    def wait_one_pair(self, timeout=5.0):
        """Waits until each link has one IKE SA and one child pair, the same on both ends."""
        def agreed():
            pairs = self.pairs()
            want = self.links_each() * self.n // 2
            return len(pairs) == want and all(
                len(ends) == 1 and ike and len(spis) == 2
                for ends in pairs.values() for ike, spis in ends)
        wait_until(agreed, timeout, "one IKE SA and child pair a link, the same on both ends",
                   every=0.1)
