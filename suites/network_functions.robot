*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    Network functions, each written once, as XDP program, as AF_XDP application (spinning, in poll(), busy
...              polling) and combined (sockets open, the verdict in XDP), on dropped, passed and mixed traffic.
...
...              [Cfg] suites/studies/network-functions.yaml: functions x modes, in rounds, in random order.
...              [Ver] Each row passes when its function was measured in its mode with all kinds of traffic that are
...              its; what this machine cannot do is skipped with the reason. The last rows state how the order of
...              the modes agrees with the published one, and which is ahead.
...              [Ref] Parola, Procopio, Risso (CoNEXT 2021) and the measurements of their library xsknf; the report
...              prints their figures next to ours.
...
...              The report is results/latest/report.html. Longer variants: ENTRIES, ITERATIONS, READS, DROP_PERCENTS
...              and RX_RINGS take several values each, and KNOBS settings such as ddio_ways=11.

Library          xdplab.robot.XdplabLibrary

Suite Setup      Run The Study
Test Template    Part Was Measured

Test Tags        afxdp    xdp    functions


*** Variables ***
${TESTBED}          embedded
${PATH}             ${EMPTY}    # the method has paths of its own; another is refused
${LINE_RATE}        ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${FUNCTIONS}        ${EMPTY}    # space-separated: router ... firewall+load_balancer; empty: all
${MODES}            ${EMPTY}    # space-separated: xdp af_xdp af_xdp-poll ...; empty: all
${ENTRIES}          ${EMPTY}    # of access list, session and route table: 1 1000 1000000
${ITERATIONS}       ${EMPTY}    # added work per frame in the core: 1 5 9
${READS}            ${EMPTY}    # added work per frame in memory
${WORK_BYTES}       ${EMPTY}    # of the array that is read, a power of two
${DROP_PERCENTS}    ${EMPTY}    # of the traffic, where a firewall stands before another function: 0 50 100
${RX_RINGS}         ${EMPTY}    # 256 512
${KNOBS}            ${EMPTY}    # space-separated name=value, in place of the study's: cpu_layout=inline ddio_ways=11
${DURATION}         ${EMPTY}    # seconds per trial
${REPETITIONS}      ${EMPTY}


*** Test Cases ***    FUNCTION    MODE
Router As XDP Program    router    xdp
Router On AF_XDP    router    af_xdp
Router On AF_XDP With Poll    router    af_xdp-poll
Router On AF_XDP With Busy Poll    router    af_xdp-bp
Router Combined    router    combined
Router Combined With Poll    router    combined-poll
Router Combined With Busy Poll    router    combined-bp
Checksummer As XDP Program    checksummer    xdp
Checksummer On AF_XDP    checksummer    af_xdp
Checksummer On AF_XDP With Poll    checksummer    af_xdp-poll
Checksummer On AF_XDP With Busy Poll    checksummer    af_xdp-bp
Checksummer Combined    checksummer    combined
Checksummer Combined With Poll    checksummer    combined-poll
Checksummer Combined With Busy Poll    checksummer    combined-bp
Macswap As XDP Program    macswap    xdp
Macswap On AF_XDP    macswap    af_xdp
Macswap On AF_XDP With Poll    macswap    af_xdp-poll
Macswap On AF_XDP With Busy Poll    macswap    af_xdp-bp
Macswap Combined    macswap    combined
Macswap Combined With Poll    macswap    combined-poll
Macswap Combined With Busy Poll    macswap    combined-bp
Firewall As XDP Program    firewall    xdp
Firewall On AF_XDP    firewall    af_xdp
Firewall On AF_XDP With Poll    firewall    af_xdp-poll
Firewall On AF_XDP With Busy Poll    firewall    af_xdp-bp
Firewall Combined    firewall    combined
Firewall Combined With Poll    firewall    combined-poll
Firewall Combined With Busy Poll    firewall    combined-bp
Load Balancer As XDP Program    load_balancer    xdp
Load Balancer On AF_XDP    load_balancer    af_xdp
Load Balancer On AF_XDP With Poll    load_balancer    af_xdp-poll
Load Balancer On AF_XDP With Busy Poll    load_balancer    af_xdp-bp
Load Balancer Combined    load_balancer    combined
Load Balancer Combined With Poll    load_balancer    combined-poll
Load Balancer Combined With Busy Poll    load_balancer    combined-bp
Firewall And Load Balancer As XDP Program    firewall+load_balancer    xdp
Firewall And Load Balancer On AF_XDP    firewall+load_balancer    af_xdp
Firewall And Load Balancer On AF_XDP With Poll    firewall+load_balancer    af_xdp-poll
Firewall And Load Balancer On AF_XDP With Busy Poll    firewall+load_balancer    af_xdp-bp
Firewall And Load Balancer Combined    firewall+load_balancer    combined
Firewall And Load Balancer Combined With Poll    firewall+load_balancer    combined-poll
Firewall And Load Balancer Combined With Busy Poll    firewall+load_balancer    combined-bp
Orders Beside The Published Ones
    [Template]    NONE
    Findings Are Logged
Who Is Ahead
    [Template]    NONE
    Question Was Answered


*** Keywords ***
Run The Study
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${functions}    Evaluate    $FUNCTIONS.split()
    ${modes}    Evaluate    $MODES.split()
    ${entries}    Evaluate    $ENTRIES.split()
    ${iterations}    Evaluate    $ITERATIONS.split()
    ${reads}    Evaluate    $READS.split()
    ${drop_percents}    Evaluate    $DROP_PERCENTS.split()
    ${rx_rings}    Evaluate    $RX_RINGS.split()
    ${knobs}    Evaluate    dict(word.split('=', 1) for word in $KNOBS.split()) or ''
    Run Study
    ...    network-functions.yaml
    ...    method.functions=${functions}
    ...    method.modes=${modes}
    ...    method.table_entries=${entries}
    ...    method.work_iterations=${iterations}
    ...    method.work_lookups=${reads}
    ...    method.work_bytes=${WORK_BYTES}
    ...    method.drop_percents=${drop_percents}
    ...    method.rx_rings=${rx_rings}
    ...    knobs=${knobs}
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    method.duration_s=${DURATION}
    ...    repetitions=${REPETITIONS}
