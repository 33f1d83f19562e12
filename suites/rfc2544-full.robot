*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    RFC 2544 section 26 in its own times: trials of 60 s, latencies of 20 times 120 s, 50 searches for
...              bursts, all frame sizes of section 9.1, both directions. It takes hours for each forwarder and size.
...
...              [Cfg] suites/studies/rfc2544-full.yaml; `xdplab run rfc2544-full --dry-run` says how long it takes, as
...              the first line of the run does. However it has ended, `-v RESUME:latest` goes on with it.
...              [Ver] Each row passes when its forwarder or clause was measured at every point; what this machine
...              cannot do is skipped with the reason.
...              [Ref] RFC 2544 sections 9.1 and 26.1 to 26.6, RFC 9004; the report lists each deviation, and
...              `xdplab report --sheet` makes a sheet to sign of it.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study

Test Tags        rfc2544    slow


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # through, reflect or hairpin; empty: that of the study, or of the testbed
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${FORWARDERS}     ${EMPTY}    # space-separated, e.g. "ovs-afxdp xdp"; empty: those of the study
${TESTER}         ${EMPTY}    # xdpgen or trex, with options as trex:path=/opt/trex
${FRAME_SIZES}    ${EMPTY}    # space-separated bytes with FCS; empty: all of section 9.1
${PRESET}         ${EMPTY}    # rfc2544; another one has shorter times, and the report says so
${CLAUSES}        ${EMPTY}    # space-separated, e.g. "throughput reset"; empty: all six
${BUDGET}         ${EMPTY}    # seconds of traffic of a search at the most
${RESUME}         ${EMPTY}    # latest, or a run: goes on with it; the variables above must be as they are here


*** Test Cases ***
OVS On AF_XDP
    Forwarder Was Measured    ovs-afxdp

OVS On AF_PACKET
    Forwarder Was Measured    ovs-afpacket

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
    ${testbed}    Evaluate    "" if $RESUME else $TESTBED
    Run Study
    ...    rfc2544-full.yaml
    ...    resume=${RESUME}
    ...    testbed=${testbed}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    tester=${TESTER}
    ...    forwarders=${forwarders}
    ...    frame_bytes=${sizes}
    ...    method.preset=${PRESET}
    ...    method.clauses=${clauses}
    ...    method.budget_s=${BUDGET}
