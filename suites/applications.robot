*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    What applications get of each switch, and without one: TCP and UDP between programs on A and C, every
...              byte checked.
...
...              [Cfg] suites/studies/applications.yaml: every forwarder at every workload, in rounds, in random order.
...              [Ver] A row passes when every forwarder that can run here was measured at that workload, and every
...              byte arrived as it was sent. The last row says who is ahead, or is skipped with why that is undecided.
...              [Ref] docs/applications.md.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Part Was Measured

Test Tags        applications


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # through is the only path of applications
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s; applications send as fast as TCP does
${FORWARDERS}     ${EMPTY}    # space-separated, e.g. "ovs-afxdp linux-bridge"; empty: those of the study
${WORKLOADS}      ${EMPTY}    # space-separated, e.g. "bulk requests:16 web:16"; empty: those of the study
${DURATION}       ${EMPTY}    # seconds per trial
${REPETITIONS}    ${EMPTY}


*** Test Cases ***    WORKLOAD
One Bulk Connection    bulk
One Request At A Time    requests
Sixteen Requests At A Time    requests:16
New Connections    connections:16
Datagrams    udp
Who Is Ahead
    [Template]    NONE
    Question Was Answered


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${forwarders}    Evaluate    $FORWARDERS.split()
    ${workloads}    Evaluate    $WORKLOADS.split()
    Run Study
    ...    applications.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    forwarders=${forwarders}
    ...    method.workloads=${workloads}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
