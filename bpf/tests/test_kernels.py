# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What an older kernel lacks is done without."""

import pytest
from conftest import config, stream, xdpgen
from xsk import XSK, wait_for_frames, xsk

#: Linux 6.3 has it; the other name, as long, no kernel has.
FUNCTION = b"bpf_xdp_metadata_rx_timestamp"
NO_FUNCTION = b"bpf_xdp_metadata_rx_timestamq"


@pytest.fixture
def older(tmp_path):
    """xsk, for which this kernel has no time stamps of the NIC."""
    program = XSK.read_bytes()
    assert FUNCTION in program
    path = tmp_path / "xsk"
    path.write_bytes(program.replace(FUNCTION, NO_FUNCTION))
    path.chmod(0o755)
    return path


def test_no_function_for_time_stamps_of_the_nic(middle, older):
    with xsk(middle, "b", "sink", "b0", program=older, stages=True) as sink:
        xdpgen(config([middle.port("a0", rx="tc"), middle.port("c0", rx="tc")], stream(pps=1000.0), warmup_s=0))
        wait_for_frames(sink, "rx", 300)
        done = sink.finish()
    assert sink.ready["ports"][0]["stamps"] == "software"
    assert (done["stages"]["software"], done["stages"]["unstamped"]) == (300, 0)


def test_roles_without_time_stamps(middle, older):
    with xsk(middle, "b", "forward", "b0", "b1", program=older) as forwarder:
        assert [port["xdp_mode"] for port in forwarder.ready["ports"]] == ["native", "native"]
        forwarder.finish()


@pytest.mark.parametrize(
    "streams",
    [
        [{"pps": 1000.0}],
        [{"pps": None, "kind": "load"}],
        [{"pps": 1000.0, "departures": "poisson"}],
        [{"pps": 1000.0, "flows": 100, "flow_choice": "zipf"}],
        [{"pps": 1000.0, "flows": 100, "flow_choice": "uniform", "departures": "poisson"}],
        [{"pps": 1000.0, "count": 20}],
        [{"pps": 1000.0}, {"pps": None, "kind": "load"}],
        [{"pps": 1000.0}, {"pps": 500.0, "departures": "poisson", "flows": 10}],
    ],
    ids=["paced", "top", "poisson", "drawn", "drawn-poisson", "count", "paced-and-top", "two"],
)
@pytest.mark.parametrize("batch", [0, 1, 64], ids=["as-planned", "single", "batches"])
def test_the_live_sender_loads_in_every_shape(direct, streams, batch):
    """Constants specialise it, so a verifier may take one shape and not another: then AF_XDP would send."""
    given = [stream(**{"id": number, "tx_port": 0, "rx_port": 1, **each}) for number, each in enumerate(streams)]
    more = {"batch": batch} if batch else {}
    result = xdpgen(config([direct.port("a0"), direct.port("c0")], *given, duration_s=0.1, **more))
    assert (result["sender"], result["sender_reason"]) == ("live", None)
    assert all(each["sent"] for each in result["streams"])
