# SPDX-License-Identifier: Apache-2.0
"""Where commands run. argv lists only: nothing here ever meets a shell."""

from xdplab.hosts.base import Completed as Completed, Conversation as Conversation, Host as Host, Running as Running
from xdplab.hosts.local import LocalHost as LocalHost, NetnsHost as NetnsHost
from xdplab.hosts.ssh import SshHost as SshHost, how_to_install as how_to_install
