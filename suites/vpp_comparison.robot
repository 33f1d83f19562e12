*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    VPP over AF_XDP against AF_PACKET and DPDK, with Open vSwitch over the same three in the same run.
...
...              [Cfg] suites/studies/vpp-comparison.yaml: each repetition of a forwarder takes the latency at LOAD
...              and then searches the throughput; points are measured in rounds, in random order.
...              [Ver] Each row passes when its forwarder was proven to carry frames and was measured in each
...              repetition; what this machine cannot do is skipped with the reason, and for a VPP that is not
...              installed with what installs it.
...              [Ref] RFC 2544 sections 26.1 and 26.2, with the deviations that the report states.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Forwarder Was Measured

Test Tags        vpp    rfc2544-26.1    rfc2544-26.2


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # through, reflect or hairpin; empty: that of the study, or of the testbed
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${FORWARDERS}     ${EMPTY}    # space-separated, e.g. "vpp-afxdp ovs-afxdp"; empty: those of the study
${TESTER}         ${EMPTY}
${LOAD}           ${EMPTY}    # frames per second at which latency is measured
${FRAME_SIZE}     ${EMPTY}    # bytes, FCS counted
${PRESET}         ${EMPTY}    # of the search: quick, csit, tst009, rfc2544 or binary
${BUDGET}         ${EMPTY}    # seconds of traffic of a search at the most
${REPETITIONS}    ${EMPTY}
${SEED}           ${EMPTY}    # of the order of points


*** Test Cases ***    FORWARDER
VPP on AF_XDP    vpp-afxdp
VPP on AF_PACKET, TPACKET_V3    vpp-afpacket
VPP on AF_PACKET, TPACKET_V2    vpp-afpacket:tpacket=2
VPP on DPDK's AF_XDP PMD    vpp-dpdk
VPP on DPDK's AF_PACKET PMD    vpp-dpdk:port=af_packet
OVS on AF_XDP    ovs-afxdp
OVS on AF_PACKET    ovs-afpacket
OVS-DPDK over the AF_XDP PMD    ovs-dpdk
OVS-DPDK over the AF_PACKET PMD    ovs-dpdk:port=af_packet
Every Other Forwarder Asked For
    [Template]    NONE
    Every Forwarder Was Measured
VPP On AF_XDP Or AF_PACKET
    [Template]    NONE
    Question Was Answered


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${forwarders}    Evaluate    $FORWARDERS.split()
    Run Study
    ...    vpp-comparison.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    tester=${TESTER}
    ...    forwarders=${forwarders}
    ...    method.equal_load.latency_pps=${LOAD}
    ...    traffic.frame_bytes=${FRAME_SIZE}
    ...    method.preset=${PRESET}
    ...    method.budget_s=${BUDGET}
    ...    repetitions=${REPETITIONS}
    ...    seed=${SEED}
