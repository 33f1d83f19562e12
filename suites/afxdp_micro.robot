*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    What one AF_XDP socket does before there is a switch: rxdrop, txonly and l2fwd, with DPDK over the
...              AF_XDP PMD and, where it is installed, xdpsock as the other sides.
...
...              [Cfg] suites/studies/afxdp-micro.yaml: its cases, in rounds, in random order.
...              [Ver] Each row passes when its case was measured at every workload that it takes part in; what this
...              machine cannot do is skipped with the reason. The last row says who is ahead, or is skipped with why
...              that is undecided.
...              [Ref] Karlsson, Topel: The Path to DPDK Speeds for AF_XDP (Linux Plumbers 2018); the report prints its
...              figures next to ours.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Case Was Measured

Test Tags        afxdp    micro


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # the method has paths of its own; another is refused
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${WORKLOADS}      ${EMPTY}    # space-separated: rxdrop txonly l2fwd; empty: all
${DURATION}       ${EMPTY}    # seconds per trial
${REPETITIONS}    ${EMPTY}


*** Test Cases ***    CASE
Run To Completion    run to completion
Data Touched    data touched
Data Untouched    data untouched
Data Written For Each Frame    data written for each frame
System Poll    poll()
Busy Poll    busy poll
Small Rings And Large Batch    small rings, large batch
Two Sockets On The UMEM    2 sockets on the UMEM
Four Sockets On The UMEM    4 sockets on the UMEM
Generic XDP    generic XDP
Zero Copy    zero-copy
AF_PACKET    AF_PACKET
DPDK    DPDK, testpmd on net_af_xdp
Xdpsock    xdpsock
Who Is Ahead
    [Template]    NONE
    Question Was Answered


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${workloads}    Evaluate    $WORKLOADS.split()
    Run Study
    ...    afxdp-micro.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    method.workloads=${workloads}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
