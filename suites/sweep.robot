*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    Which settings matter: every combination of a study's settings is measured, and the effect of each
...              is estimated next to all others.
...
...              [Cfg] suites/studies/understanding-delays-embedded.yaml: what can be set on veth pairs. Or another
...              STUDY: pings.yaml sweeps the sockets of two applications, where MATTERS is tester.wait.
...              [Ver] Every configuration that this machine has was measured, the others have a reason; where NAPI
...              runs shows as what matters, which is known of veth and so tests the sweep itself. Where that
...              is too little to tell, or with fewer than six configurations, that test is skipped with the sentence.
...              [Ref] "Understanding Delays in AF_XDP-based Applications"; `python -m xdplab_delays` makes its
...              groups and rules, and prints its Tables I and II next to ours.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study

Test Tags        sweep


*** Variables ***
${STUDY}          understanding-delays-embedded.yaml
${TESTBED}        ${EMPTY}
${PATH}           ${EMPTY}    # through, reflect or hairpin; empty: that of the study, or of the testbed
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${TESTER}         ${EMPTY}
${DURATION}       ${EMPTY}    # seconds per trial
${REPETITIONS}    ${EMPTY}
${RUNS}           ${EMPTY}    # a random part of the combinations instead of all
${MATTERS}        cpu_layout


*** Test Cases ***
Every Configuration Was Measured
    Every Forwarder Was Measured

Settings That Cannot Work Here Have Reasons
    Unsupported Points Have Reasons

It Is Said Which Settings Matter
    Sweep Was Analysed

What Is Known To Matter Shows
    Skip If    $RUNS    a random part of the combinations cannot tell what one setting does
    Setting Matters    ${MATTERS}


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${design}    Evaluate    {'kind': 'random', 'runs': int($RUNS)} if $RUNS else ''
    Run Study
    ...    ${STUDY}
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    tester=${TESTER}
    ...    design=${design}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
