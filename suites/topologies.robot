*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    What TCP and requests get where frames cross a switch more than once: containers on veth pairs, tap
...              devices or vhost-user, and a tunnel between two ends.
...
...              [Cfg] suites/studies/topologies.yaml: every forwarder in every topology, in rounds, in random order.
...              [Ver] A row passes when every forwarder that can do the topology was measured in it: each
...              byte of TCP came as it was sent, and behind its trial single frames came through unchanged. What none
...              can do here is skipped. The last row says who is ahead where, or is skipped with why that is undecided.
...              [Ref] docs/applications.md; Open vSwitch's Documentation/intro/install/afxdp.rst.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Work Was Measured

Test Tags        applications    topologies


*** Variables ***
${TESTBED}        embedded    # containers are namespaces of this machine
${PATH}           ${EMPTY}    # through is the only path of applications
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s; applications send as fast as TCP does
${FORWARDERS}     ${EMPTY}    # space-separated, e.g. "ovs-afxdp linux-bridge"; empty: those of the study
${PIPELINES}      ${EMPTY}    # space-separated, e.g. "containers:8 vxlan-link"; empty: those of the study
${WORKLOADS}      ${EMPTY}    # space-separated, e.g. "bulk requests:16"; empty: those of the study
${DURATION}       ${EMPTY}    # seconds per trial
${REPETITIONS}    ${EMPTY}


*** Test Cases ***    TOPOLOGY
Nothing In Between    cross
One Container    containers:1
Four Containers    containers:4
An AF_XDP Program Without Privileges    af-xdp-apps:1
A Container On Tap Devices    taps:1
A Container On vhost-user    vhost-user:1
A VXLAN Tunnel    vxlan-link
A Geneve Tunnel    geneve-link
All Other Topologies Asked For
    [Template]    NONE
    Every Forwarder Was Measured
OVS On AF_XDP Or AF_PACKET
    [Template]    NONE
    Question Was Answered


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${forwarders}    Evaluate    $FORWARDERS.split()
    ${pipelines}    Evaluate    $PIPELINES.split()
    ${workloads}    Evaluate    $WORKLOADS.split()
    Run Study
    ...    topologies.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    forwarders=${forwarders}
    ...    pipeline=${pipelines}
    ...    method.workloads=${workloads}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
