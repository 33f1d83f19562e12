*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    How network functions scale over cores with receive rings of 512 and 256 entries, and with 2 to 11 ways
...              of the last-level cache for the card's writes (DDIO).
...
...              [Cfg] suites/studies/network-functions-scaling.yaml, in rounds, in random order.
...              [Ver] Each row passes when its function was measured in its mode at every number of cores, ring and
...              ways that this machine has; the others are in the report with the reason: CPUs that are missing, a
...              driver that does not spread flows, ways of DDIO off Intel's servers.
...              [Ref] Parola, Procopio, Risso (CoNEXT 2021); the report prints their finding next to ours.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Part Was Measured

Test Tags        afxdp    xdp    functions    scaling


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # the method has paths of its own; another is refused
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${FUNCTIONS}      ${EMPTY}    # space-separated: router checksummer; empty: all
${MODES}          ${EMPTY}
${CORES}          ${EMPTY}    # space-separated: 1 2 4 6 8 12
${RX_RINGS}       ${EMPTY}    # of the sockets: 512 256; those of the card: KNOBS
${WAYS}           ${EMPTY}    # of DDIO: 0 (as it is) 2 3 4 5 6 7 8 9 10 11
${KNOBS}          ${EMPTY}    # space-separated name=value: rx_ring=512, the rings of the card
${DURATION}       ${EMPTY}    # seconds per trial
${REPETITIONS}    ${EMPTY}


*** Test Cases ***    FUNCTION    MODE
Router As XDP Program    router    xdp
Router On AF_XDP With Poll    router    af_xdp-poll
Router On AF_XDP With Busy Poll    router    af_xdp-bp
Router Combined With Poll    router    combined-poll
Checksummer As XDP Program    checksummer    xdp
Checksummer On AF_XDP With Poll    checksummer    af_xdp-poll
Checksummer On AF_XDP With Busy Poll    checksummer    af_xdp-bp
Checksummer Combined With Poll    checksummer    combined-poll


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${functions}    Evaluate    $FUNCTIONS.split()
    ${modes}    Evaluate    $MODES.split()
    ${cores}    Evaluate    $CORES.split()
    ${rx_rings}    Evaluate    $RX_RINGS.split()
    ${ways}    Evaluate    $WAYS.split()
    ${knobs}    Evaluate    dict(word.split('=', 1) for word in $KNOBS.split()) or ''
    Run Study
    ...    network-functions-scaling.yaml
    ...    method.functions=${functions}
    ...    method.modes=${modes}
    ...    method.cores=${cores}
    ...    method.rx_rings=${rx_rings}
    ...    method.ddio_ways=${ways}
    ...    knobs=${knobs}
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
