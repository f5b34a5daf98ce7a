"""The peers among themselves: when this fails, the lab is at fault and not weft."""
import pytest

from lab import Mesh, Ping, StrongSwan, wait_ping
from lab.strongswan import CLASSIC, CLASSIC_ESP, HYBRID, HYBRID_ESP


@pytest.fixture
def mesh(lab):
    """Places and keys for two nodes; no weft runs in them."""
    return Mesh(lab, 2)


def join(mesh, roots, **proposals):
    ends = []
    for local, remote, root in ((1, 2, roots[0]), (2, 1, roots[1])):
        end = StrongSwan(mesh.spaces[local - 1], root,
                         mesh.connection(local, remote, **proposals)).start()
        end.tunnel(f"{mesh.inner(local)}/32 {mesh.inner(local, 'ip6')}/128",
                   [f"{mesh.inner(remote)}/32", f"{mesh.inner(remote, 'ip6')}/128"])
        ends.append(end)
    ends[0].initiate()
    return ends


def check_traffic(mesh):
    for ns, i in ((mesh.spaces[0], 2), (mesh.spaces[1], 1)):
        for family in ("ip4", "ip6"):
            wait_ping(ns, mesh.inner(i, family))
            with Ping(ns, mesh.inner(i, family)) as running:
                running.wait_received(20)
            assert running.result.lost == 0


@pytest.mark.parametrize("root, has", [("forky", True), ("trixie", False), ("bookworm", False)])
def test_which_strongswan_has_ml_kem(mesh, root, has):
    peer = StrongSwan(mesh.spaces[0], root).start()
    assert ("ML_KEM_768" in peer.swanctl("--list-algs").stdout) == has


def test_hybrid_between_two_testing(mesh):
    ends = join(mesh, ("forky", "forky"), proposals=HYBRID, esp_proposals=HYBRID_ESP)
    for end in ends:
        sa = end.wait_up()[0]
        assert (sa["dh-group"], sa["ake1"]) == ("CURVE_25519", "ML_KEM_768")
    check_traffic(mesh)
    ends[1].rekey_child()
    ends[0].rekey_ike()
    for end in ends:
        end.wait_up()
    check_traffic(mesh)


def test_classic_between_testing_and_bookworm(mesh):
    ends = join(mesh, ("forky", "bookworm"), proposals=CLASSIC, esp_proposals=CLASSIC_ESP)
    for end in ends:
        assert end.wait_up()[0]["dh-group"] == "CURVE_25519"
    check_traffic(mesh)
    ends[0].terminate()
    ends[1].wait_up(0, 0)
