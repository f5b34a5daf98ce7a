"""weftd with ranet's three files joins a strongSwan that is configured as ranet configures it."""
import json
import re

import pytest

from lab import Beside, Failed, Weftd, build_folder, ping, wait_until

# what ranet sets over vici beyond the defaults of Connection, which are ranet's
RANET = {"remote_addrs": "0.0.0.0/0, 10.0.0.1", "if_id_in": "%unique", "if_id_out": "%unique"}
RANET6 = dict(RANET, remote_addrs="::/0, fd00::1")
# charon beside ranet in the gravity mesh
CHARON = {"retransmit_timeout": 30, "retransmit_base": 1, "reuse_ikesa": "no"}
DEFAULTS = dict(proposals=None, esp_proposals=None)


class RanetWeft(Weftd):
    """weftd started with ranet's files. Its control socket has the standard place, in a /run of its
    own.
    """

    def configure(self, config):
        self._write(self.config_path, config["ranet"])
        self.write_registry(config["registry"])
        self.key = config["key"]
        self.config = config

    def start(self, wait=10.0, env=None):
        self.process = self.ns.start(
            "unshare", "-m", "sh", "-ec", 'mount -t tmpfs none /run; exec "$@"', "sh",
            build_folder() / "weftd", "--ranet-config", self.config_path, "--ranet-registry",
            self.registry_path, "--ranet-key", self.key.path, name="weftd-ranet", env=env)
        self.wait_answer(wait)
        return self

    def tool(self, *words, check=True, timeout=30.0):
        return self.ns.run("nsenter", "-t", str(self.process.pid), "-m", build_folder() / "weft",
                           *words, check=check, timeout=timeout)


def beside(lab, root, initiator="weft", underlay="ip4", settings=None, **more):
    """A Beside whose weft is started as ranet would be; without the address of strongSwan in the
    registry when that is to initiate, and with no address of its own in its configuration.
    """
    pair = Beside(lab, root, initiator, underlay, charon=CHARON, settings=settings or RANET,
                  **DEFAULTS, **more)
    endpoint = {"serial_number": "0", "address_family": underlay, "port": 13000, "updown": None,
                "fwmark": None}
    if initiator == "weft":
        endpoint["address"] = pair.mesh.outer(1, underlay)
        registry = pair.mesh.registry()
    else:
        registry = pair.registry_without_address()
    pair.weft = RanetWeft(pair.a, {
        "ranet": {"organization": "org1", "common_name": "n1", "endpoints": [endpoint]},
        "registry": registry, "key": pair.mesh.keys[0]}, name="ranet")
    return pair


def link_local(pair):
    """The address of weft's end of the link, which answers on the group of all nodes."""
    def heard():
        done = pair.b.sh("ping -6 -n -c 2 -i 0.1 -W 1 -I ipsec0 ff02::1", check=False)
        return re.findall(r"bytes from (fe80::[0-9a-f:]+)(?:%ipsec0)?: ", done.stdout)
    own = {one["local"] for link in pair.b.ip_json("addr show dev ipsec0")
           for one in link["addr_info"] if one["family"] == "inet6"}
    return wait_until(lambda: set(heard()) - own, 5.0, "an answer of weft on ff02::1").pop()


@pytest.mark.parametrize("root", ["forky", "trixie", "bookworm"])
@pytest.mark.parametrize("initiator", ["weft", "strongswan"])
def test_joins_a_ranet_mesh(lab, root, initiator):
    pair = beside(lab, root, initiator)
    pair.start()
    pair.wait_agreed()
    # weft waits for an endpoint without an address: only strongSwan can have called
    assert (pair.peer.sas()[0].get("initiator") == "yes") == (initiator == "strongswan")
    address = link_local(pair)
    ping(pair.b, address, options=("-I", "ipsec0"))
    link = pair.link()
    pair.peer.rekey_child()
    pair.peer.rekey_ike()
    wait_until(lambda: pair.link()["ike"]["spi_i"] != link["ike"]["spi_i"]
               and pair.link()["children"][0]["spi_in"] != link["children"][0]["spi_in"], 5.0,
               "new SPIs")
    pair.wait_agreed()
    # the address of a link's end stays
    assert link_local(pair) == address


def test_ipv6(lab):
    pair = beside(lab, "forky", underlay="ip6", settings=RANET6)
    pair.start()
    pair.wait_agreed()
    link_local(pair)


def test_an_endpoint_without_address_is_waited_for(lab):
    pair = beside(lab, "forky", "strongswan")
    pair.start_peer()
    pair.weft.start()
    assert "no address" in pair.reason()
    with pytest.raises(Failed):
        pair.weft.wait_up(1, timeout=2)
    assert pair.peer.sas() == [] and "IKE_SA_INIT" not in pair.peer.log()
    pair.peer.initiate()
    pair.wait_agreed()


def test_a_node_of_the_same_name_is_skipped(lab):
    """ranet's pairing rule: whatever its organization."""
    pair = beside(lab, "forky")
    namesake = json.loads(json.dumps(pair.mesh.registry()))
    namesake[1]["nodes"][0]["common_name"] = "n1"
    pair.weft.write_registry(namesake)
    pair.weft.start()
    assert pair.weft.links() == []
