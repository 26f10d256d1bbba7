from .conftest import Invoke


def test_the_list_is_in_the_order_of_the_pipeline(invoke: Invoke) -> None:
    records = invoke("passes", "list", "--json").envelope["result"]["passes"]
    stages = [record["stage"] for record in records]
    order = ["parse", "prepare", "split", "optimize", "compile"]
    assert stages == sorted(stages, key=order.index)
    assert [record["order"] for record in records] == list(range(1, len(records) + 1))
    shown = invoke("passes", "list").out.splitlines()
    assert [line.split()[0] for line in shown[1:]] == [record["name"] for record in records]
    for record in records:
        names = [other["name"] for other in records[: record["order"]]]
        same_stage = [
            name for name in record["after"] if name in {r["name"] for r in records if r["stage"] == record["stage"]}
        ]
        assert set(same_stage) <= set(names)


def test_a_pass_shows_its_formula(invoke: Invoke) -> None:
    ran = invoke("passes", "show", "ConvBatchnormFusionPass")
    assert ran.code == 0
    assert ran.out.startswith("ConvBatchnormFusionPass  prepare, number ")
    assert "--skip_pass=ConvBatchnormFusionPass" in ran.out
    assert "k = gamma / √(var + ε)" in ran.out


def test_an_unknown_pass_names_the_nearest(invoke: Invoke) -> None:
    ran = invoke("passes", "show", "ConvBatchNormFusionPas")
    assert ran.code == 2
    assert '"ConvBatchnormFusionPass"' in ran.err
    assert invoke("passes", "show").code == 2
    assert '"show"' in invoke("passes", "shwo").err
