"""strongSwan with the Linux kernel's own ESP, in a virtual machine.

   n1 ---- br0 [road] ---- eth0 (VM) eth1 ---- br1 [road] ---- n2

The machine is a router: its address outside is that of node 2 of a Mesh, node 2's addresses in the
tunnel are those of the host n2 behind it. What its policies send out goes through the device xf0
(an xfrm interface), which has a link-local address.
"""
from .core import wait_until
from .mesh import PORT, Mesh
from .strongswan import StrongSwan
from .vm import VirtualMachine

MODULES = ("esp4", "esp6", "xfrm_interface", "xfrm_user", "gcm", "ghash_generic", "seqiv",
           "echainiv")
PLUGINS = ("random nonce openssl pem pkcs1 pkcs8 pubkey hmac kdf curve25519 vici socket-default "
           "kernel-netlink")
FILES = ("/usr/sbin/charon-systemd", "/usr/sbin/swanctl",
         "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1")
FOLDER = "/usr/lib/ipsec/plugins"
MEMORY_MB = 256
IF_ID = 3
LINK_LOCAL = "fe80::2"
SELF, OTHER = 2, 1
SETUP = f"""for f in ipv4/ip_forward ipv6/conf/all/forwarding; do echo 1 > /proc/sys/net/$f; done
for f in all default; do echo 0 > /proc/sys/net/ipv6/conf/$f/accept_dad; done
for d in eth0 eth1; do ip link set $d up; done
for a in {Mesh.outer(SELF)}/24 {Mesh.outer(SELF, "ip6")}/64; do ip addr add $a dev eth0; done
for a in 192.168.9.1/24 fd00:9::1/64; do ip addr add $a dev eth1; done
ip link add xf0 type xfrm dev eth0 if_id {IF_ID}
ip link set xf0 addrgenmode none mtu 1400 multicast on up
ip addr add {LINK_LOCAL}/64 dev xf0
for a in {Mesh.inner(OTHER)}/32 {Mesh.inner(OTHER, "ip6")}/128; do ip route add $a dev xf0; done
ip route add {Mesh.inner(SELF)}/32 via 192.168.9.2 dev eth1
ip route add {Mesh.inner(SELF, "ip6")}/128 via fd00:9::2 dev eth1"""


class KernelHost:
    """The machine, booted, with nothing of IPsec in it; a mesh at a time may join() it."""

    def __init__(self, lab, root="forky"):
        self.log_tails = lab.log_tails
        self.road = lab.ns("road")
        for bridge in ("br0", "br1"):
            self.road.ip(f"link add {bridge} type bridge")
            self.road.up(bridge)
        plugins = [f"{FOLDER}/libstrongswan-{name}.so" for name in PLUGINS.split()]
        self.vm = VirtualMachine(self.road, 2, MODULES, root, [*FILES, *plugins], MEMORY_MB)

    def start(self):
        self.vm.start().run(*SETUP.splitlines())
        for tap, bridge in (("tap0", "br0"), ("tap1", "br1")):
            self.road.ip(f"link set {tap} master {bridge}")
        return self

    def join(self, mesh):
        """Wires n1 and n2 of a mesh of two to it."""
        lab, (one, two) = mesh.lab, mesh.spaces
        _, port = lab.veth(one, self.road,
                           f"{mesh.outer(OTHER)}/24 {mesh.outer(OTHER, 'ip6')}/64")
        self.road.ip(f"link set {port} master br0")
        device, port = lab.veth(two, self.road, "192.168.9.2/24 fd00:9::2/64", mtu=1400)
        self.road.ip(f"link set {port} master br1")
        for family, gateway, bits in (("ip4", "192.168.9.1", 32), ("ip6", "fd00:9::1", 128)):
            own, far = mesh.inner(SELF, family), mesh.inner(OTHER, family)
            two.addr(f"{own}/{bits}", device)
            two.route(f"{far}/{bits}", f"via {gateway} src {own}")
        # the addresses of the mesh before are on other devices
        self.vm.run("ip neigh flush dev eth0; ip neigh flush dev eth1")


class KernelSwan(StrongSwan):
    """charon in a KernelHost; stop it before the next begins."""

    LOG = "/dev/ttyS1"
    OTHERS = {"swanctl": {"load": "random openssl pem pkcs1 pkcs8 pubkey"}}  # or it tries 60 more
    ENV = "STRONGSWAN_CONF=/run/swan/strongswan.conf SWANCTL_DIR=/run/swan/swanctl"

    # the files and the process are elsewhere than the other's
    def __init__(self, host, connection, charon=None):  # pylint: disable=super-init-not-called
        self.vm = host.vm
        self._said = len(self.vm.said())
        self._settings = {"load": PLUGINS, "port": 0, "port_nat_t": PORT, "install_routes": "no",
                          "retransmit_timeout": 4, "delete_rekeyed_delay": 2, **(charon or {})}
        connection.child_settings = {"if_id_in": IF_ID, "if_id_out": IF_ID,
                                     **connection.child_settings}
        self.vm.run("rm -rf /run/swan")
        self.configure(connection)

    def _write(self, name, text):
        self.vm.write(f"/run/swan/{name}", text)

    def start(self):
        self.vm.run(f"{self.ENV} /usr/sbin/charon-systemd >/dev/null 2>&1 & echo $! > /run/pid")
        wait_until(lambda: self.swanctl("--stats", check=False, timeout=20).returncode == 0, 120.0,
                   "charon to answer", every=0.3)
        self.load()
        return self

    def swanctl(self, *words, check=True, timeout=60.0):
        return self.vm.attempt(
            f"{self.ENV} timeout {timeout} /usr/sbin/swanctl {' '.join(map(str, words))} 2>&1",
            check, timeout + 30)

    def tunnel(self, addresses, routes=()):
        """The host behind the machine has the addresses, and the machine the routes."""

    def running(self):
        return self.vm.attempt("kill -0 $(cat /run/pid)", check=False).returncode == 0

    def stop(self):
        self.vm.run("kill $(cat /run/pid)")
        wait_until(lambda: not self.running(), 30.0, "charon to end", every=0.2)

    def kill(self):
        """kill -9: the peer is told nothing, and the kernel keeps the SAs."""
        self.vm.run("kill -9 $(cat /run/pid)")

    def clear(self):
        """Ends it if it runs, and nothing of it stays in the kernel."""
        self.vm.run("kill -9 $(cat /run/pid) || true", "ip xfrm state flush",
                    "ip xfrm policy flush")

    def log(self):
        return self.vm.said()[self._said:]
