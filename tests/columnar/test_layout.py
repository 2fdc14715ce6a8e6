"""How the kernel is compiled."""

from typing import Any

from batchline.columnar.layout import compiled


def test_a_kernel_whose_compilation_can_be_kept_nowhere_runs_all_the_same() -> None:
    # Numba finds no place for the code of a function without a file, as it finds none where nothing can be written.
    names: dict[str, Any] = {}
    exec("def twice(number): return 2 * number", names)  # noqa: S102 - a function without a file
    assert compiled(names["twice"])(21) == 42
