# SPDX-License-Identifier: Apache-2.0
"""Programs that others wrote and that methods measure with: how memcached, nginx, wrk are started, what wrk prints."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from xdplab.api import Figure, Host, PointFailed, Running, wait_until
from xdplab_applications import memcached_client

REQUESTS = Figure(key="requests_per_s", name="requests", unit="requests/s", better="more", verb="answers")
#: Benchmarking addresses (RFC 2544 appendix C.2.2) of client and server, where their ports have none.
CLIENT, SERVER = "198.18.0.1", "198.18.0.2"
WEB_PORT, MEMCACHED_PORT = 8080, 11211
#: Until a server listens.
_READY_S = 5.0
#: Program -> the Debian package that has it, where that has another name.
_PACKAGES = {"nginx": "nginx-light"}

_NGINX = """\
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen {address}:{port}; location / {{ return 200 "xdplab\\n"; }} }}
}}
"""


def missing_program(host: Host, programs: Sequence[str]) -> str | None:
    """Why the first program that a host lacks is needed to be installed; None when all are there."""
    for program in programs:
        if host.run(["which", program], check=False).returncode:
            return f"{program} is not installed; `apt-get install {_PACKAGES.get(program, program)}` installs it"
    return None


@contextlib.contextmanager
def running(host: Host, argv: Sequence[str], port: int, *, log: Path, cpu: int) -> Iterator[Running]:
    """A server, once it listens, or has ended.

    Raises:
        PointFailed: neither within 5 s.
    """
    process = host.start(argv, log=log, cpus=[cpu])
    try:
        wait_until(lambda: process.poll() is not None or _listens(host, port), _READY_S, f"{argv[0]}: its socket")
        yield process
    finally:
        process.stop()


def _listens(host: Host, port: int) -> bool:
    return bool(host.run(["ss", "-Hltn", "sport", "=", f":{port}"]).stdout.strip())


def nginx(host: Host, folder: Path, address: str) -> list[str]:
    """Its arguments, after its configuration is written to a folder: one process that answers 7 bytes."""
    settings = folder / "nginx.conf"
    host.write(str(settings), _NGINX.format(folder=folder, address=address, port=WEB_PORT))
    return ["nginx", "-c", str(settings), "-e", str(folder / "nginx.log")]


def memcached(address: str) -> list[str]:
    """Its arguments: one thread, TCP only."""
    return ["memcached", "-u", "root", "-l", address, "-p", str(MEMCACHED_PORT), "-U", "0", "-t", "1", "-m", "64"]


def memcached_requests(host: Host, address: str, connections: int, duration_s: float) -> list[str]:
    """Arguments of its client, which prints JSON."""
    script = [host.python, host.program(Path(memcached_client.__file__))]
    return [*script, address, str(MEMCACHED_PORT), str(duration_s), str(connections)]


def wrk(address: str, connections: int, duration_s: float) -> list[str]:
    """Its arguments. It counts whole seconds: see `wrk_seconds`."""
    seconds = f"{wrk_seconds(duration_s):g}s"
    return ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", f"http://{address}:{WEB_PORT}/"]


def wrk_seconds(duration_s: float) -> float:
    """The whole seconds that wrk measures for, at least one."""
    return max(1.0, float(round(duration_s)))


def wrk_requests_per_s(text: str) -> float:
    """From what wrk prints.

    Raises:
        PointFailed: errors, or no such line.
    """
    errors = re.search(r"^\s*(Socket errors: .*|Non-2xx .*)$", text, re.MULTILINE)
    if errors and not re.fullmatch(r"Socket errors: connect 0, read 0, write 0, timeout \d+", errors.group(1)):
        raise PointFailed(f"wrk: {errors.group(1)}")
    found = re.search(r"^Requests/sec:\s+([\d.]+)$", text, re.MULTILINE)
    if found is None or not float(found.group(1)):
        raise PointFailed("wrk: no request was answered")
    return float(found.group(1))
