# SPDX-License-Identifier: Apache-2.0
"""What xdplab does on a machine, and the program that does it on a host behind SSH.

`machine.Machine` declares each operation once. For this machine it is called in this process; for a host the program
`agent.pyz FOLDER` (`serve`) calls it: sshd starts it for a session, it carries out one request for each line of JSON
`{"id", "op", "args", "given"}` on its standard input, and answers `{"id", "ok"}` or `{"id", "error", "kind"}`.

The session is the lease: when it is closed, or no line has come for as long as the controller said (`{"op": "beat"}` is
a line without an answer), every process that the agent started is ended, and then the agent itself.

Standard library only (Python 3.9): nothing needs to be installed on the host; the modules travel as one zip file.
Argument lists only: no shell.
"""
