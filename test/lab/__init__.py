"""The lab: network namespaces, emulated links, daemons and traffic for scenarios.

A scenario takes the fixture `lab` (test/conftest.py) and builds what it needs from here.
"""
from .beside import Beside
from .core import Failed, Lab, Namespace, Process, wait_until
from .kernel_swan import KernelHost, KernelSwan
from .link import EmulatedLink
from .mesh import Mesh
from .peers import PeerRoot, peer_root
from .strongswan import Connection, StrongSwan, ranet_dn
from .traffic import (Iperf, Ping, TcpSession, UdpStream, ping, ping_range, tcp_serve,
                      tcp_transfer, wait_ping)
from .vm import VirtualMachine
from .weft import Ended, Key, Weftd, build_folder, is_sanitized, registry, registry_node

__all__ = [
    "Beside", "build_folder", "Connection", "EmulatedLink", "Ended", "Failed", "Iperf",
    "is_sanitized", "KernelHost", "KernelSwan", "Key", "Lab", "Mesh", "Namespace", "peer_root",
    "PeerRoot", "Ping", "ping", "ping_range", "Process", "ranet_dn", "registry", "registry_node",
    "StrongSwan", "tcp_serve", "tcp_transfer", "TcpSession", "UdpStream", "VirtualMachine",
    "wait_ping", "wait_until", "Weftd",
]
