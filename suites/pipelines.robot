*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    Which port type for which work: bridging, routing, access lists, connections, translation and more on
...              Open vSwitch's three kinds of ports, in VPP and in the kernel.
...
...              [Cfg] suites/studies/pipelines.yaml: every forwarder at every pipeline, in rounds, in random order.
...              STUDY is pipelines.yaml (latency at a light load), pipelines-rate.yaml (forwarding rate at overload) or
...              pipeline-sizes.yaml (that rate by number of flows and of rules; its work is the last row's).
...              [Ver] Each row passes when every forwarder that can do the work did it to the byte, before and after it
...              was measured, and counted each frame by the rule it met; what none can do here is skipped.
...              [Ref] RFC 2544 section 26.2 for latency; docs/pipelines.md says what each pipeline is.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Work Was Measured

Test Tags        pipelines    rfc2544-26.2


*** Variables ***
${STUDY}          pipelines.yaml    # or pipelines-rate.yaml, pipeline-sizes.yaml
${CLAUSES}        ${EMPTY}    # with pipelines-rate.yaml, e.g. "throughput": minutes for each point
${TESTBED}        embedded
${PATH}           ${EMPTY}    # through is the only path of pipelines
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${FORWARDERS}     ${EMPTY}    # space-separated, e.g. "ovs-afxdp linux-router"; empty: those of the study
${PIPELINES}      ${EMPTY}    # space-separated, e.g. "route:100000 nat"; empty: those of the study
${TESTER}         ${EMPTY}
${RATE}           ${EMPTY}    # probes per second
${FLOWS}          ${EMPTY}    # UDP flows that the frames take in turns
${FRAME_SIZE}     ${EMPTY}    # bytes, FCS counted
${REPETITIONS}    ${EMPTY}


*** Test Cases ***    PIPELINE
Cross-Connect    cross
Learning Bridge    bridge
VLAN Tag Pushed And Popped    vlan
Meter    meter
Two Outputs    mirror
Select Group    group
Router With 1,000 Prefixes For Each Side    route:1000
Access List Of 100 Rules In 8 Masks    acl:100x8
Stateful Firewall    conntrack
Source NAT    nat
VXLAN Tunnel On One Side    vxlan
All Other Work Asked For
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
    ${clauses}    Evaluate    $CLAUSES.split()
    Run Study
    ...    ${STUDY}
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    tester=${TESTER}
    ...    forwarders=${forwarders}
    ...    pipeline=${pipelines}
    ...    method.clauses=${clauses}
    ...    traffic.probe_pps=${RATE}
    ...    traffic.flows=${FLOWS}
    ...    traffic.frame_bytes=${FRAME_SIZE}
    ...    repetitions=${REPETITIONS}
