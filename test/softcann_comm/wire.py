"""The TCP transport's protocol, spoken by a process that is no rank: for tests of what a rank makes of it.

Everything here is written from Note [Handshake], with Python's own hmac, so it checks the library's, too."""
import hashlib
import hmac
import os
import socket
import struct

ROOT = struct.Struct("=16sQQii20s32s")   # RootInfo
CHALLENGE_BYTES, ANSWER_BYTES = 48, 4 + 192 + 64 * 20 + 4 + 64 * 16 + 32
FRAME = struct.Struct("=IIQ16sQ")
COLLECTIVE, MESSAGE, INVITE, WITHDRAW, FAILURE, LEAVE, READY, ASK, WAITING = range(9)


class Root:
    """What a root info says."""

    def __init__(self, data):
        self.magic, self.nonce, self.host, self.pid, self.segment, address, self.secret = ROOT.unpack_from(data)
        self.address = decode(address)


def decode(address):
    """(host, port) of an Address; None if it is empty."""
    family, port = struct.unpack_from("=HH", address)
    if family == 0:
        return None
    return socket.inet_ntop(family, address[4:8] if family == socket.AF_INET else address[4:20]), port


def encode(host, port):
    return struct.pack("=HH", socket.AF_INET, port) + socket.inet_aton(host) + bytes(12)


def read(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError(f"ended after {len(data)} of {count} bytes")
        data += piece
    return data


def introduce(connection, secret, rank, ranks, address=bytes(20)):
    """The caller's side of the handshake. Returns (code, text, addresses)."""
    challenge, own = read(connection, CHALLENGE_BYTES), os.urandom(32)
    assert challenge.startswith(b"softcann-mesh-3\0")
    said = own + struct.pack("=III", rank, ranks, 60000) + address + bytes(16)   # a process that is not here
    connection.sendall(said + hmac.digest(secret, b"caller" + challenge[16:] + own + said, hashlib.sha256))
    answer = read(connection, ANSWER_BYTES)
    proof = hmac.digest(secret, b"accepter" + challenge[16:] + own + answer[:-32], hashlib.sha256)
    assert hmac.compare_digest(answer[-32:], proof)
    code, = struct.unpack_from("=i", answer)
    return code, answer[4:196].split(b"\0")[0].decode(), [decode(answer[at:at + 20]) for at in range(196, 196 + ranks * 20, 20)]


def join(root, rank, ranks):
    """Connects to the root and to all ranks below, as the last rank; returns the connections by rank."""
    accepting = socket.create_server(("127.0.0.1", 0))
    meeting = socket.create_connection(root.address, 60)
    code, text, addresses = introduce(meeting, root.secret, rank, ranks, encode(*accepting.getsockname()))
    assert code == 0, text
    connections = {}
    for peer in range(rank):
        connections[peer] = socket.create_connection(addresses[peer], 60)
        assert introduce(connections[peer], root.secret, rank, ranks)[0] == 0
    for connection in connections.values():
        connection.sendall(frame(READY, 0, 0))
    return connections


def frame(type, number, size, step=0, call=bytes(16)):
    return FRAME.pack(type, step, number, call, size)


def read_frame(connection):
    """(type, number, data) of the next frame."""
    type, _, number, _, size = FRAME.unpack(read(connection, FRAME.size))
    return type, number, read(connection, size)
