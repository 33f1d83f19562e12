*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    What it costs a frame that an AF_XDP application is traced while it forwards it: by time stamps that
...              the application itself takes (in-band), by its static probes recorded by BPF, and by perf; with every
...              batch traced, and with one in a hundred at full rate.
...
...              [Cfg] suites/studies/measurement-cost.yaml: at each rate rounds of trials, one without tracing and one
...              for each way.
...              [Ver] A row passes when its way was measured; a way that this machine lacks is skipped with the
...              reason. The last row passes when the default way, in-band, is not shown to miss the goal.
...              [Ref] Castillon du Perron, Lopez Pacheco, Huet: Understanding Delays in AF_XDP-based Applications:
...              their tracing with USDT probes and perf cost 5 to 10 us; the report prints it next to ours.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Part Was Measured

Test Tags        afxdp    tracing


*** Variables ***
${TESTBED}      embedded
${PATH}         ${EMPTY}    # through, reflect or hairpin; empty: that of the study, or of the testbed
${LINE_RATE}    ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${WAYS}         ${EMPTY}    # space-separated: in-band bpf perf; empty: all
${RATES}        ${EMPTY}    # space-separated frames per second
${ROUNDS}       ${EMPTY}
${DURATION}     ${EMPTY}    # seconds per trial


*** Test Cases ***    WAY
Stamps Of The Application    in-band
Probes Recorded By BPF    bpf
Probes Recorded By Perf    perf
The Default Way Is Cheap
    [Template]    NONE
    Part Was Measured    in-band    below its goal


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${ways}    Evaluate    $WAYS.split()
    ${rates}    Evaluate    [float(rate) for rate in $RATES.split()]
    Run Study
    ...    measurement-cost.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    method.ways=${ways}
    ...    method.rates_pps=${rates}
    ...    method.pairs=${ROUNDS}
    ...    method.duration_s=${DURATION}
