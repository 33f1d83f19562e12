*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    What a change under load costs: rules installed and removed, the rule in use replaced, a
...              port or a queue added, a restart.
...
...              [Cfg] suites/studies/changes.yaml: every forwarder at every change, in rounds, in random order, each
...              time next to a trial of the same length without the change.
...              [Ver] A row passes when every forwarder that can do the change did it by what it shows itself, no frame
...              arrived twice, and it still forwards as its pipeline says. How long it was blocked is no gate.
...              [Ref] Effective blocked time: reconfiguration tests of FD.io CSIT; docs/methods.md.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Part Was Measured

Test Tags        changes


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # through is the only path of pipelines
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${FORWARDERS}     ${EMPTY}    # space-separated, e.g. "ovs-afxdp linux-router"; empty: those of the study
${KINDS}          ${EMPTY}    # space-separated, e.g. "rules restart"; empty: those of the study
${PIPELINE}       ${EMPTY}    # e.g. acl:100x8; empty: that of the study
${RULES}          ${EMPTY}    # that come and go; empty: those of the study
${TESTER}         ${EMPTY}
${RATE}           ${EMPTY}    # probes per second
${DURATION}       ${EMPTY}    # seconds of a trial, but of what is done once (method.once_s)
${REPETITIONS}    ${EMPTY}


*** Test Cases ***    CHANGE
Rules In One Transaction    rules
Rules One After Another    rule-stream
The Rule In Use Replaced    hit-rule
Port Added    port-added
Queue Added    queue-added
Restart    restart
OVS On AF_XDP Or AF_PACKET
    [Template]    NONE
    Question Was Answered
Latency Beside The Change
    [Template]    NONE
    Findings Are Logged


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${forwarders}    Evaluate    $FORWARDERS.split()
    ${kinds}    Evaluate    $KINDS.split()
    Run Study
    ...    changes.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    tester=${TESTER}
    ...    forwarders=${forwarders}
    ...    pipeline=${PIPELINE}
    ...    method.kinds=${kinds}
    ...    method.rules=${RULES}
    ...    traffic.probe_pps=${RATE}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
