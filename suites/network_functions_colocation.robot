*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    What a web server and a computing job on the core of a firewall do while that drops a flood of rising
...              rate, as XDP program, on AF_XDP and combined.
...
...              [Cfg] suites/studies/network-functions-colocation.yaml, in rounds, in random order.
...              [Ver] Each row passes when nginx (asked by wrk) and the job were measured with every flood; what this
...              machine cannot do is skipped with the reason, as are the ways of DDIO with KNOBS.
...              [Ref] Parola, Procopio, Risso (CoNEXT 2021).
...
...              The report is results/latest/report.html; it has cache misses where the machine counts them.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Part Was Measured

Test Tags        afxdp    xdp    functions    colocation


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # the method has paths of its own; another is refused
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${FLOODS}         ${EMPTY}    # space-separated frames per second; empty: those of the study
${MODES}          ${EMPTY}
${KNOBS}          ${EMPTY}    # space-separated name=value, in place of the study's: cpu_layout=1C1T ddio_ways=11
${DURATION}       ${EMPTY}    # seconds per measurement
${REPETITIONS}    ${EMPTY}


*** Test Cases ***    FUNCTION    MODE
Firewall As XDP Program    firewall    xdp
Firewall On AF_XDP    firewall    af_xdp
Firewall On AF_XDP With Poll    firewall    af_xdp-poll
Firewall Combined With Poll    firewall    combined-poll
Who Is Ahead
    [Template]    NONE
    Question Was Answered


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${floods}    Evaluate    $FLOODS.split()
    ${modes}    Evaluate    $MODES.split()
    ${knobs}    Evaluate    dict(word.split('=', 1) for word in $KNOBS.split()) or ''
    Run Study
    ...    network-functions-colocation.yaml
    ...    method.flood_pps=${floods}
    ...    method.modes=${modes}
    ...    knobs=${knobs}
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
