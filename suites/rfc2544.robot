*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    RFC 2544 section 26 in full: throughput, latency, frame loss rate, back-to-back frames, system
...              recovery and reset of each forwarder.
...
...              [Cfg] suites/studies/rfc2544.yaml; PRESET is one of quick, csit, tst009, rfc2544, binary.
...              [Ver] Each row passes when its forwarder or clause was measured at every point; what this machine
...              cannot do is skipped with the reason.
...              [Ref] RFC 2544 sections 26.1 to 26.6, RFC 9004; the report says for each figure where it deviates.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study

Test Tags        rfc2544


*** Variables ***
${TESTBED}          embedded
${PATH}             ${EMPTY}    # through, reflect or hairpin; empty: that of the study, or of the testbed
${LINE_RATE}        ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${FORWARDERS}       ${EMPTY}    # space-separated, e.g. "ovs-afxdp xdp"; empty: those of the study
${TESTER}           ${EMPTY}    # xdpgen or trex, with options as trex:path=/opt/trex
${FRAME_SIZES}      ${EMPTY}    # space-separated bytes with FCS, or imix
${PRESET}           ${EMPTY}
${CLAUSES}          ${EMPTY}    # space-separated, e.g. "throughput reset"; empty: all six
${FLOWS}            ${EMPTY}
${BIDIRECTIONAL}    ${EMPTY}    # true: both directions at once
${REPETITIONS}      ${EMPTY}


*** Test Cases ***
OVS On AF_XDP
    Forwarder Was Measured    ovs-afxdp

OVS On AF_PACKET
    Forwarder Was Measured    ovs-afpacket

OVS-DPDK Over The AF_XDP PMD
    Forwarder Was Measured    ovs-dpdk

The Kernel's Bridge
    Forwarder Was Measured    linux-bridge

Every Other Forwarder Asked For
    Every Forwarder Was Measured

Throughput
    [Tags]    rfc2544-26.1
    Part Was Measured    throughput

Latency At Load
    [Tags]    rfc2544-26.2
    Part Was Measured    latency

Frame Loss Rate
    [Tags]    rfc2544-26.3
    Part Was Measured    loss_curve

Back To Back Frames
    [Tags]    rfc2544-26.4    rfc9004
    Part Was Measured    back_to_back

System Recovery
    [Tags]    rfc2544-26.5
    Part Was Measured    recovery

Reset
    [Tags]    rfc2544-26.6
    Part Was Measured    reset

OVS On AF_XDP Or AF_PACKET
    [Tags]    rfc2544-26.1
    Question Was Answered


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${forwarders}    Evaluate    $FORWARDERS.split()
    ${sizes}    Evaluate    $FRAME_SIZES.split()
    ${clauses}    Evaluate    $CLAUSES.split()
    Run Study
    ...    rfc2544.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    tester=${TESTER}
    ...    forwarders=${forwarders}
    ...    frame_bytes=${sizes}
    ...    traffic.flows=${FLOWS}
    ...    traffic.bidirectional=${BIDIRECTIONAL}
    ...    method.preset=${PRESET}
    ...    method.clauses=${clauses}
    ...    repetitions=${REPETITIONS}
