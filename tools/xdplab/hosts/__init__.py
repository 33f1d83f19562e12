# SPDX-License-Identifier: Apache-2.0
"""Where commands run. argv lists only: nothing here ever meets a shell."""

from xdplab.hosts.base import Completed, Conversation, Host, Running
from xdplab.hosts.local import LocalHost, NetnsHost
from xdplab.hosts.ssh import SshHost
