*** Comments ***
# SPDX-License-Identifier: Apache-2.0


*** Settings ***
Documentation    Open vSwitch over AF_XDP next to AF_PACKET and DPDK, and what each patch of its AF_XDP ports is worth.
...
...              [Cfg] suites/studies/ovs-figures.yaml: three ports at three CPU layouts, untuned, throughput without
...              loss. suites/studies/ovs-ablation.yaml: Debian's build, ours without and with the patches (ovs/build),
...              each new option alone, the best together, no switch at all: throughput without loss, and latency at one
...              load for all.
...              [Ver] A figure passes when its ratio was measured at one layout at least, a variant when it was
...              measured next to the reference in each repetition; what this machine cannot do is skipped with the
...              reason. Ratios are reported, not judged: they are those of this machine.
...              [Ref] Figures 2 and 3 of Intel's technology guide "AF_XDP Sockets: High Performance Networking for
...              Cloud-Native Networking" (tools/xdplab/model/published/intel-afxdp-guide.yaml); RFC 2544 section
...              26.1, with the deviations that the report states.
...
...              Each study has a report; results/latest/report.html is that of the ablation.

Library          xdplab.robot.XdplabLibrary

Test Tags        ovs    rfc2544-26.1


*** Variables ***
${FIGURES}        ovs-figures.yaml
${ABLATION}       ovs-ablation.yaml
${TESTBED}        embedded
${PATH}           ${EMPTY}    # through, reflect or hairpin; empty: that of the study, or of the testbed
${LINE_RATE}      ${EMPTY}    # of the ports in bit/s, e.g. 25e9; empty: speed_mbps of the testbed file
${LAYOUTS}        ${EMPTY}    # space-separated, e.g. "inline 1C1T"; empty: those of the study
${VARIANTS}       ${EMPTY}    # space-separated labels of the ablation, e.g. "stock patched hugepages"; empty: all
${FRAME_SIZE}     ${EMPTY}    # bytes, FCS counted
${PRESET}         ${EMPTY}    # quick, csit, tst009, rfc2544, binary
${BUDGET}         ${EMPTY}    # seconds of traffic of a search at the most
${REPETITIONS}    ${EMPTY}


*** Test Cases ***
Untuned Throughput At Each CPU Layout
    [Tags]    figures
    Run The Figures
    Every Forwarder Was Measured

Figure 2: AF_XDP Against AF_PACKET
    [Tags]    figures
    Published Figure Stands Beside Ours    intel-afxdp-guide/figure-2

Figure 3: OVS-DPDK With The AF_XDP PMD
    [Tags]    figures
    Published Figure Stands Beside Ours    intel-afxdp-guide/figure-3

Combined Mode: XDP, AF_XDP, And Both
    [Tags]    figures
    Published Figure Stands Beside Ours    xsknf-measurements/pass-through

Known Flows Were Forwarded In XDP
    [Tags]    figures
    Flows Forwarded In XDP    ovs-afxdp:flow_offload=true

OVS On AF_XDP Or AF_PACKET
    [Tags]    figures
    Question Was Answered

Each Variant Of The Ablation
    [Tags]    ablation
    Run The Ablation
    Every Forwarder Was Measured

Built Here Without The Patches
    [Tags]    ablation
    Variant Was Compared    unpatched

Patched With Its Defaults
    [Tags]    ablation
    Variant Was Compared    patched

Smaller Rings
    [Tags]    ablation
    Variant Was Compared    rings-512

Frames Of 2048 Bytes
    [Tags]    ablation
    Variant Was Compared    frames-2048

No Headroom
    [Tags]    ablation
    Variant Was Compared    headroom-0

UMEM On Hugepages
    [Tags]    ablation
    Variant Was Compared    hugepages

Busy Poll
    [Tags]    ablation
    Variant Was Compared    busy-poll

Without Need-Wakeup
    [Tags]    ablation
    Variant Was Compared    no-need-wakeup

Without Receive Wake-Up
    [Tags]    ablation
    Variant Was Compared    no-rx-wakeup

Larger Transmit Budget
    [Tags]    ablation
    Variant Was Compared    skb-budget-256

Shared UMEM, Frames Copied
    [Tags]    ablation
    Variant Was Compared    shared-umem-copied

Shared UMEM, Frames Handed Over
    [Tags]    ablation
    Variant Was Compared    shared-umem-copy-free

The Best Together
    [Tags]    ablation
    Variant Was Compared    best-together

Known Flows In XDP
    [Tags]    ablation
    Variant Was Compared    xdp-flows
    Flows Forwarded In XDP    xdp-flows

Forwarding Without A Switch
    [Tags]    ablation
    Variant Was Compared    no-switch

Patched Or Stock
    [Tags]    ablation
    Question Was Answered


*** Keywords ***
Run The Figures
    [Documentation]    Replaces what the variables give; empty ones leave the study as it is.
    ${layouts}    Evaluate    $LAYOUTS.split()
    Run Study
    ...    ${FIGURES}
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    knobs.cpu_layout=${layouts}
    ...    traffic.frame_bytes=${FRAME_SIZE}
    ...    method.preset=${PRESET}
    ...    method.budget_s=${BUDGET}
    ...    repetitions=${REPETITIONS}

Run The Ablation
    [Documentation]    The same for the ablation; VARIANTS names the variants to measure, the reference among them.
    ${variants}    Evaluate    $VARIANTS.split()
    Run Study
    ...    ${ABLATION}
    ...    only=${variants}
    ...    testbed=${TESTBED}
    ...    path=${PATH}
    ...    traffic.line_rate_bps=${LINE_RATE}
    ...    traffic.frame_bytes=${FRAME_SIZE}
    ...    method.preset=${PRESET}
    ...    method.budget_s=${BUDGET}
    ...    repetitions=${REPETITIONS}
