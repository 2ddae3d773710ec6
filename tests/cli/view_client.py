"""A server of tomos view for tests: started without a browser, asked by plain sockets, and always ended."""
import array
import http.client
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import time


def npy_write(path, shape, values):
    """Float32 numbers; values None: a sparse file of zeros."""
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (tuple(shape),)
    head = head.ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        if values is not None:
            file.write(array.array("f", values).tobytes())
        else:
            file.truncate(128 + 4 * shape[0] * shape[1] * shape[2])


def box(first, count, step=(1, 1, 1), file=0, level=0, more=""):
    triple = lambda t: ",".join(map(str, t))
    return f"box?file={file}&level={level}&first={triple(first)}&count={triple(count)}&step={triple(step)}{more}"


class Server:
    def __init__(self, tomos, *words, browser=None):
        """browser: the environment in which the command opens one."""
        self.begun = time.monotonic()
        words = words if browser else (*words, "--no-browser")
        self.process = subprocess.Popen([tomos, "view", *words], stdout=subprocess.PIPE, text=True, env=browser)
        line = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/", line)
        if not found:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"no address but '{line}'")
        self.port, self.token = int(found[1]), found[2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, path, method="GET", host=None, token=None, headers=()):
        """Status, headers and bytes of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, f"/{token or self.token}/{path}" if token != "" else path, skip_host=True)
            if host != "":
                connection.putheader("Host", host or f"127.0.0.1:{self.port}")
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders()
            reply = connection.getresponse()
            return reply.status, dict((k.lower(), v) for k, v in reply.getheaders()), reply.read()
        finally:
            connection.close()

    def get(self, path):
        status, _, data = self.ask(path)
        if status != 200:
            raise AssertionError(f"{path}: {status} {data[:200]!r}")
        return data

    def floats(self, path):
        return array.array("f", self.get(path))

    def info(self):
        return json.loads(self.get("info"))

    def listening(self):
        """Addresses that the process listens on, from /proc, as 'ADDRESS:PORT' in hexadecimal digits."""
        folder = f"/proc/{self.process.pid}/fd"
        inodes = set()
        for name in os.listdir(folder):
            try:
                link = os.readlink(f"{folder}/{name}")
            except OSError:
                continue  # closed in the meantime
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
        found = []
        for table in ("tcp", "tcp6", "udp", "udp6"):
            for line in open(f"/proc/net/{table}").read().splitlines()[1:]:
                words = line.split()
                if words[9] in inodes and (words[3] == "0A" or table.startswith("udp")):
                    found.append(f"{table} {words[1]}")
        return found

    def begin(self, path):
        """A connection on which something was asked for."""
        s = socket.create_connection(("127.0.0.1", self.port), 60)
        s.sendall(f"GET /{self.token}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n\r\n".encode())
        return s

    def counter(self, name):
        """A number of /proc/PID/io: rchar, the bytes that the process has read; syscr, its calls of read."""
        with open(f"/proc/{self.process.pid}/io") as file:
            return int(dict(line.split(": ") for line in file)[name])

    def interrupt(self):
        """Ctrl-C: the exit status and the seconds until then."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60), time.monotonic() - start

    # ---- requests that are none ----

    def malformed(self, rng):
        """The bytes of a request with something wrong."""
        line = rng.choice(["GET", "HEAD", "POST", "PUT", "OPTIONS", "get", "", "G\0T", "A" * 300]) + " "
        path = rng.choice([f"/{self.token}/", "/", "//", "", "http://x/", f"/{self.token[:-1]}0/", f"/{self.token}//"])
        path += rng.choice(["info", "box", "slice", "zarr/", "", "../../etc/passwd", "%2e%2e/", "zarr/..%2f..%2f", "\\..\\",
                            "box?first=", "box?" + "first=1,2,3&" * 50, "slice?row=-1&axis=nan", "x" * rng.randrange(5000),
                            box((0, 0, 0), (10 ** 19, 1, 1)), box((0, 0, 0), (4096, 4096, 4096)), "box?file=99999999999999999999"])
        host = rng.choice([f"127.0.0.1:{self.port}", f"localhost:{self.port}", "evil.example", "", "127.0.0.1", "a" * 9000])
        text = line + path + rng.choice([" HTTP/1.1", " HTTP/1.0", " HTTP/9.9", "", " HTTP/1.1 HTTP/1.1"]) + "\r\n"
        text += rng.choice([f"Host: {host}\r\n", "", f"Host: {host}\r\nHost: b\r\n", "Host\r\n", ": \r\n", " folded\r\n"])
        text += rng.choice(["", "Content-Length: 5\r\n", "Content-Length: -1\r\n", "Transfer-Encoding: chunked\r\n",
                            "Range: bytes=5-1\r\n", "X: " + "y" * rng.randrange(20000) + "\r\n"])
        data = bytearray((text + rng.choice(["\r\n", "", "\n\n", "\r\n\r\nhello"])).encode("latin-1"))
        for _ in range(rng.choice([0, 0, 1, 5])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(data[:rng.randrange(len(data))] if rng.random() < 0.1 else data)

    def abuse(self, count, seed):
        """Sends many such requests, some at a time, each on a connection of its own."""
        rng = random.Random(seed)
        waiting = []
        for _ in range(count):
            s = socket.create_connection(("127.0.0.1", self.port), 60)
            s.settimeout(10)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            try:
                s.sendall(self.malformed(rng))
                if rng.random() < 0.2:
                    s.shutdown(socket.SHUT_WR)
                    s.recv(4096)
            except OSError:
                pass
            waiting.append(s)
            if len(waiting) > 16:
                waiting.pop(rng.randrange(len(waiting))).close()
        for s in waiting:
            s.close()
