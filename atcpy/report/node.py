"""One node of a package as lines of text: what stands for a node of the model, and what it runs."""

from collections.abc import Iterator
from typing import Any

from atcpy.report.units import duration, shape


def became_lines(record: dict[str, Any], source: str) -> Iterator[str]:
    """The record of a node of the package that stands for the model's node `source`; `tasks` are among its members."""
    others = [name for name in record["sources"] if name != source]
    together = f", together with {', '.join(others)}" if others else ""
    yield f"  became    {record['op']} {record['name']}{together}"
    if record["passes"]:
        yield f"  passes    {' → '.join(record['passes'])}"
    if record["engine"]:
        yield f"  engine    {record['engine']}"
    for value in record["outputs"]:
        stored = f"{value['dtype']} {shape(value['storage_shape'])} {value['format']}"
        was = "" if value["storage_shape"] == value["shape"] else f", of {shape(value['shape'])}"
        yield f"  makes     {value['name']}  {stored}{was}"
    for task in record["tasks"]:
        took = f"   {duration(task['seconds'])}" if "seconds" in task else ""
        yield f"  kernel    {task['kernel']} (task {task['task']}){took}"
        for value in task["outputs"]:
            yield f"  memory    {value['region']} at {value['offset']}, {value['bytes']} bytes"
