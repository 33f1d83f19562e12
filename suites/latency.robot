*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    Latency of every forwarder at one rate, on one machine or on a testbed of three hosts: one-way where
...              the tester's ports have one clock, else round trip.
...
...              [Cfg] suites/studies/latency.yaml: the forwarders, in rounds, in random order.
...              [Ver] Each row passes when its forwarder was proven to carry frames and was measured in each
...              repetition; what this machine cannot do is skipped with the reason.
...              [Ref] RFC 2544 section 26.2, with the deviations that the report states; the OVS comparison of
...              Intel's AF_XDP guide (published/intel-afxdp-guide.yaml) asks the same question for throughput.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Forwarder Was Measured

Test Tags        latency    rfc2544-26.2


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # through, reflect or hairpin; empty: that of the study, or of the testbed
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${FORWARDERS}     ${EMPTY}    # space-separated, e.g. "ovs-afxdp ovs-afpacket"; empty: those of the study
${TESTER}         ${EMPTY}    # xdpgen or trex, with options as trex:path=/opt/trex
${RATE}           ${EMPTY}    # probes per second, or a share of the tester's calibrated top rate: 80%
${FRAME_SIZE}     ${EMPTY}    # bytes, FCS counted
${PIPELINE}       ${EMPTY}    # what the switch does: bridge, route:1000, acl:100x8, nat ...; empty: it joins two ports
${DURATION}       ${EMPTY}    # seconds per trial
${REPETITIONS}    ${EMPTY}


*** Test Cases ***    FORWARDER
OVS on AF_XDP, with our patches    ovs-afxdp:build=patched
OVS on AF_XDP, as Debian builds it    ovs-afxdp
OVS on AF_XDP, known flows in XDP    ovs-afxdp:flow_offload=true
OVS on AF_PACKET, with our patches    ovs-afpacket:build=patched
OVS-DPDK over AF_XDP    ovs-dpdk
OVS-DPDK over AF_PACKET    ovs-dpdk:port=af_packet
XDP redirect in the kernel    xdp
Linux bridge    linux-bridge
OVS in the kernel    ovs-kernel
Every Other Forwarder Asked For
    [Template]    NONE
    Every Forwarder Was Measured
Known Flows Were Forwarded In XDP
    [Template]    NONE
    Flows Forwarded In XDP    ovs-afxdp:flow_offload=true
OVS On AF_XDP Or AF_PACKET
    [Template]    NONE
    Question Was Answered


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${forwarders}    Evaluate    $FORWARDERS.split()
    Run Study
    ...    latency.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    tester=${TESTER}
    ...    forwarders=${forwarders}
    ...    traffic.probe_pps=${RATE}
    ...    traffic.frame_bytes=${FRAME_SIZE}
    ...    pipeline=${PIPELINE}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
