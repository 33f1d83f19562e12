*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    Two testers on the same paths: what each reports of the direct link, and of each forwarder.
...
...              [Cfg] suites/studies/agreement.yaml: every point is measured by each tester in every repetition, in
...              random order.
...              [Ver] The rows pass when each tester that is on this machine measured each forwarder that can run
...              here. TRex is optional: where it is missing its points are left out with how to get it.
...              [Ref] FD.io CSIT documents a constant bias of TRex and does not subtract it; trex-core#1150.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study

Test Tags        agreement


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # through, reflect or hairpin; empty: that of the study, or of the testbed
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${TESTERS}        ${EMPTY}    # space-separated, e.g. "xdpgen trex:path=/opt/trex"; empty: those of the study
${FORWARDERS}     ${EMPTY}
${RATE}           ${EMPTY}    # probes per second
${FRAME_SIZE}     ${EMPTY}    # bytes, FCS counted
${DURATION}       ${EMPTY}    # seconds per trial
${REPETITIONS}    ${EMPTY}


*** Test Cases ***
Every Point Was Measured
    Every Forwarder Was Measured

Every Tester Measured
    Every Tester Measured


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${testers}    Evaluate    $TESTERS.split()
    ${forwarders}    Evaluate    $FORWARDERS.split()
    Run Study
    ...    agreement.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    testers=${testers}
    ...    forwarders=${forwarders}
    ...    traffic.probe_pps=${RATE}
    ...    traffic.frame_bytes=${FRAME_SIZE}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
