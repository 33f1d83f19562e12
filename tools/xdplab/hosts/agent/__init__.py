# SPDX-License-Identifier: Apache-2.0
"""What xdplab runs on a host it reaches over SSH: carries out requests, and outlives the connection they came by.

`attach FOLDER` starts the agent in the background if none runs, and joins its own standard input and output
to it. The agent listens on a socket in FOLDER, which only its user may enter, and never on a network.

One request is one line of JSON `{"id", "op", "ack", ...}`, one reply `{"id", "ok"}` or `{"id", "error", "kind"}`. A
reply is kept until it has been acknowledged, and a request whose id is known is not carried out again: after a dropped
connection the other side repeats what it has no reply to, and nothing happens twice. When no line has come for as long
as it said (`{"op": "beat"}` is one without a reply), also over a connection that nobody closed, or `end` is asked for,
every process that the agent started is ended, and then the agent itself.

Standard library only (Python 3.9): nothing needs to be installed on the host; the modules travel as one zip file.
Argument lists only: no shell.
"""
