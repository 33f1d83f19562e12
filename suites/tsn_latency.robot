*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    Latency of the receive path by stages: driver, stack and both, over AF_XDP and AF_PACKET, with a
...              spinning and a sleeping application, pinned or not, SCHED_FIFO or not.
...
...              [Cfg] suites/studies/tsn-latency.yaml: 512-byte frames at 1, 128, 1,000 and 5,000 per second.
...              [Ver] Each row passes when its case was measured at every rate; what this machine cannot do is skipped
...              with the reason.
...              [Ref] Apalodimas, Khoronzhuk: XDP for TSN (Linaro Connect BKK19); the report prints its tables beside
...              ours and draws the distribution of each stage.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Case Was Measured

Test Tags        afxdp    latency    tsn


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # the method has paths of its own; another is refused
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${RATES}          ${EMPTY}    # space-separated frames per second; empty: those of the study
${DURATION}       ${EMPTY}    # seconds per trial
${REPETITIONS}    ${EMPTY}


*** Test Cases ***    CASE
AF_XDP With Software Poll    AF_XDP, software poll
AF_XDP With System Poll    AF_XDP, system poll
AF_XDP Generic With Software Poll    AF_XDP generic, software poll
AF_XDP With Software Poll And SCHED_FIFO    AF_XDP, software poll, SCHED_FIFO
AF_XDP With System Poll And SCHED_FIFO    AF_XDP, system poll, SCHED_FIFO
AF_XDP With System Poll Not Pinned    AF_XDP, system poll, not pinned
AF_PACKET With Software Poll    AF_PACKET, software poll
AF_PACKET With System Poll    AF_PACKET, system poll
AF_PACKET With System Poll And SCHED_FIFO    AF_PACKET, system poll, SCHED_FIFO
Who Is Ahead
    [Template]    NONE
    Question Was Answered


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${rates}    Evaluate    [float(rate) for rate in $RATES.split()]
    Run Study
    ...    tsn-latency.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    method.rates_pps=${rates}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
