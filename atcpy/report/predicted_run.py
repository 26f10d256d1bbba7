"""What the cost model predicts for the collectives of a package on more ranks than can be simulated."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from atcpy.om.container import Verify
from atcpy.om.package import read_package
from atcpy.om.reader import read_model
from atcpy.om.signature import PublicKey
from atcpy.options import recorded_options
from atcpy.passes.collective_costs import cheapest
from atcpy.report.units import duration, size
from atcpy.runtime.distributed.agreement import collectives_of


def predict_collectives(package: str, ranks: int, signers: Sequence[PublicKey] = ()) -> list[dict[str, Any]]:
    """A row for each collective: its bytes, the cheapest algorithm and the seconds that it takes."""
    model = read_model(read_package(package, verify=Verify.HEADER, signers=signers))
    network = replace(recorded_options(model.cmdline).prepare.allreduce.network, ranks=ranks)
    rows: list[dict[str, Any]] = []
    for node in collectives_of(model.graph):
        values = node.outputs if node.op_type == "HcomAllGather" else node.operands
        nbytes = sum(value.desc.nbytes for value in values if value.desc.is_static)
        algorithm = cheapest(node.op_type, nbytes, network.between(max(0, node.int_attr("rank_size", 0))))
        seconds = algorithm.seconds(nbytes)
        rows.append({"name": node.name, "bytes": nbytes, "algorithm": algorithm.name, "seconds": seconds})
    return rows


def lines(rows: Sequence[dict[str, Any]], ranks: int) -> Iterator[str]:
    """The same as text."""
    for row in rows:
        yield f"{row['name']}  {size(row['bytes'])}  {row['algorithm']}  {duration(row['seconds'])}"
    total = duration(sum(row["seconds"] for row in rows))
    yield f"{len(rows)} collectives of {ranks} ranks take {total} by the model of costs; nothing ran"
