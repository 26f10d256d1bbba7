from atcpy.report.columns import table


def test_columns_are_aligned_and_nothing_is_cut() -> None:
    rows = [("a" * 200, 7), ("b", 1234)]
    assert table(("name", "count"), rows, right=(1,)) == [
        "name" + " " * 198 + "count",
        "a" * 200 + "      7",
        "b" + " " * 201 + " 1234",
    ]


def test_a_table_without_rows_is_its_head() -> None:
    assert table(("a", "b"), []) == ["a  b"]
