# SPDX-License-Identifier: Apache-2.0
"""Opening SSH connections: host keys are always checked, passwords are never asked for, nothing is read but the file.

Keys come from the file that the testbed names, else from ssh-agent and ~/.ssh. The user's ssh_config is not read, so
that a testbed file says all there is to say.
"""

import contextlib
import getpass
import os
from pathlib import Path

import asyncssh

from xdplab.model import HostSpec, InputError, SshAddress

_CONNECT_TIMEOUT_S = 10.0
_KEEPALIVES = 3


class Unreachable(Exception):
    """Not now; it may be worth another try."""


@contextlib.asynccontextmanager
async def _jumped(spec: HostSpec, name: str, dead_after_s: float):  # type: ignore[no-untyped-def]
    if spec.jump is None:
        yield None
        return
    tunnel = await _connect(spec.jump, f"{name}: jump host", dead_after_s, None)
    try:
        yield tunnel
    except BaseException:
        tunnel.abort()
        raise


async def connect(spec: HostSpec, name: str) -> asyncssh.SSHClientConnection:
    """A connection to a host of a testbed, through its jump host if it has one.

    Raises:
        InputError: the host key or the user is refused, or a file is missing: trying again is of no use.
        Unreachable: no answer.
    """
    async with _jumped(spec, name, spec.dead_after_s) as tunnel:
        return await _connect(spec, name, spec.dead_after_s, tunnel)


async def _connect(
    to: SshAddress, name: str, dead_after_s: float, tunnel: asyncssh.SSHClientConnection | None
) -> asyncssh.SSHClientConnection:
    where = f"{name} ({to.address} port {to.port})"
    user = to.user or getpass.getuser()
    known_hosts = Path(to.known_hosts).expanduser()
    if not known_hosts.is_file():
        raise InputError(f"{where}: no file {known_hosts} with its host key; {_learn(to, known_hosts)}")
    key = Path(to.key).expanduser() if to.key else None
    if key is not None and not key.is_file():
        raise InputError(f"{where}: no private key file {key}")
    keys = {"client_keys": [str(key)], "agent_path": None} if key else {}
    try:
        return await asyncssh.connect(
            to.address,
            to.port,
            tunnel=tunnel,
            config=None,
            username=user,
            known_hosts=str(known_hosts),
            preferred_auth="publickey",
            ignore_encrypted=key is None,  # those of ~/.ssh that we cannot read are left out; one that was named is not
            connect_timeout=_CONNECT_TIMEOUT_S,
            login_timeout=_CONNECT_TIMEOUT_S,
            keepalive_interval=dead_after_s / _KEEPALIVES,
            keepalive_count_max=_KEEPALIVES - 1,
            compression_algs=None,
            **keys,
        )
    except asyncssh.HostKeyNotVerifiable as exc:
        raise InputError(f"{where}: host key not verified: {exc.reason}; {_learn(to, known_hosts)}") from None
    except asyncssh.PermissionDenied:
        with_key = f"key {key}" if key else "any key of ssh-agent or ~/.ssh"
        raise InputError(f"{where}: user {user} is refused with {with_key}; `ssh-copy-id` puts a key there") from None
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as exc:
        raise InputError(f"{where}: key {key}: {exc}; a key with a passphrase belongs in ssh-agent") from None
    except (OSError, asyncssh.Error) as exc:
        why = os.strerror(exc.errno) if isinstance(exc, OSError) and exc.errno else str(exc)
        raise Unreachable(f"{where}: {why or 'no answer'}") from None


def _learn(to: SshAddress, known_hosts: Path) -> str:
    """How to put a host key where it is looked for."""
    learn = f"ssh-keyscan -p {to.port} {to.address} >> {known_hosts}"
    return f"`{learn}` puts it there: compare its fingerprint with the host's"
