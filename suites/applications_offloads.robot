*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    What breaks or slows TCP: checksums, segments and VLAN tags that are left to a card where there is
...              none, receive offload at the switch, an MTU above the switch's.
...
...              [Cfg] suites/studies/applications-offloads.yaml: every forwarder with each of them; frames of offload
...              vlan have a tag, all others none.
...              [Ver] A row passes when every forwarder was measured with it, or is unsupported with the name of what
...              breaks TCP and the command that fixes it. The last row logs what slows TCP.
...              [Ref] docs/applications.md.
...
...              The report is results/latest/report.html.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Part Was Measured

Test Tags        applications    offloads


*** Variables ***
${TESTBED}        embedded
${PATH}           ${EMPTY}    # through is the only path of applications
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s; applications send as fast as TCP does
${FORWARDERS}     ${EMPTY}    # space-separated, e.g. "ovs-afxdp linux-bridge"; empty: those of the study
${OFFLOADS}       ${EMPTY}    # space-separated, e.g. "none checksum"; empty: those of the study
${REPETITIONS}    ${EMPTY}


*** Test Cases ***    OFFLOADS
None    none
Checksum    checksum
As A Container Has Them    default
VLAN Tag    vlan
Receive Offload At The Switch    gro
What Slows TCP
    [Template]    NONE
    Findings Are Logged


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${forwarders}    Evaluate    $FORWARDERS.split()
    ${offloads}    Evaluate    $OFFLOADS.split()
    Run Study
    ...    applications-offloads.yaml
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    forwarders=${forwarders}
    ...    method.offloads=${offloads}
    ...    repetitions=${REPETITIONS}
