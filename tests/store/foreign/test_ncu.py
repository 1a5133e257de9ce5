"""Nsight Compute's CSV in both layouts: right FLOPs, right warnings, never a traceback."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steplab.core.errors import TableError
from steplab.store.foreign.ncu import read_ncu

OP = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
COUNTS = {"fadd": 1000, "fmul": 200, "ffma": 5000, "hadd": 10, "hmul": 20, "hfma": 30, "dadd": 1, "dmul": 2, "dfma": 3}
FLOPS = 1000 + 200 + 2 * 5000 + 10 + 20 + 2 * 30 + 1 + 2 + 2 * 3


def wide(metrics: dict[str, tuple[str, str]], kernels: tuple[str, ...] = ("gemm",)) -> str:
    lines = [["ID", "Process ID", "Kernel Name", *metrics], ["", "", "", *(unit for unit, _ in metrics.values())]]
    lines += [[str(i), "7", name, *(value for _, value in metrics.values())] for i, name in enumerate(kernels)]
    return "==PROF== Connected\n" + "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n"


def long(metrics: dict[str, tuple[str, str]], kernels: tuple[str, ...] = ("gemm",)) -> str:
    lines = [["ID", "Process ID", "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"]]
    for i, name in enumerate(kernels):
        lines += [[str(i), "7", name, metric, unit, value] for metric, (unit, value) in metrics.items()]
    return "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines) + "\n"


def every_metric() -> dict[str, tuple[str, str]]:
    made = {OP.format(op): ("inst", f"{count:,}") for op, count in COUNTS.items()}
    made["sm__ops_path_tensor_src_fp16_dst_fp32.sum"] = ("", "1,000,000")
    made["sm__ops_path_tensor_src_int8.sum"] = ("", "77")
    made |= {
        "dram__bytes.sum": ("Mbyte", "1.5"),
        "lts__t_bytes.sum": ("Kbyte", "4,000"),
        "l1tex__t_bytes.sum": ("byte", "9e6"),
    }
    return made | {"gpu__time_duration.sum": ("usecond", "12.5")}


def profile(tmp_path: Path, text: str, **options: int):
    path = tmp_path / "kernels.csv"
    path.write_text(text)
    return read_ncu(path, **options)


@pytest.mark.parametrize("layout", [wide, long])
def test_every_floating_point_instruction_counts(tmp_path: Path, layout) -> None:
    found = profile(tmp_path, layout(every_metric(), ("gemm", "conv")))
    assert [one.name for one in found.kernels] == ["gemm", "conv"]
    one = found.kernels[0]
    assert one.flops == FLOPS + 1e6
    assert one.tensor_flops == 1e6
    assert (one.dram_bytes, one.l2_bytes, one.l1_bytes) == (1.5e6, 4e6, 9e6)
    assert one.seconds == pytest.approx(12.5e-6)
    assert not any("lower bound" in note for note in found.notes)


@pytest.mark.parametrize("layout", [wide, long])
def test_a_file_with_only_additions_gives_a_lower_bound_and_says_what_is_missing(tmp_path: Path, layout) -> None:
    metrics = {
        OP.format("fadd"): ("inst", "3,566,912"),
        "dram__bytes.sum": ("byte", "10"),
        "gpu__time_duration.sum": ("ns", "9"),
    }
    found = profile(tmp_path, layout(metrics))
    assert found.kernels[0].flops == 3566912
    (note,) = [note for note in found.notes if "lower bound" in note]
    for missing in ("FMUL", "FFMA", "HFMA", "DFMA", "tensor cores"):
        assert missing in note
    assert "FADD" not in note


def test_matrix_instructions_are_taken_at_a_stated_rate(tmp_path: Path) -> None:
    text = wide({"sm__inst_executed_pipe_tensor.sum": ("inst", "100")})
    found = profile(tmp_path, text)
    assert found.kernels[0].flops == 51200
    assert any("taken as 512 FLOPs each" in note for note in found.notes)
    assert profile(tmp_path, text, tensor_flops=4096).kernels[0].flops == 409600


def test_matrix_instructions_are_not_counted_twice(tmp_path: Path) -> None:
    metrics = {f"sm__inst_executed_pipe_tensor{kind}.sum": ("inst", "100") for kind in ("", "_op_hmma", "_op_imma")}
    assert profile(tmp_path, wide(metrics)).kernels[0].flops == 51200
    both = metrics | {"sm__ops_path_tensor_src_tf32_dst_fp32.sum": ("", "7")}
    both |= {f"sm__ops_path_tensor_src_tf32_dst_fp32_sparsity_{on}.sum": ("", "3.5") for on in ("on", "off")}
    assert profile(tmp_path, wide(both)).kernels[0].flops == 7


def test_the_same_counter_per_sm_and_per_partition_counts_once(tmp_path: Path) -> None:
    metrics = {"sm__sass_thread_inst_executed_op_ffma_pred_on.sum": ("inst", "5"), OP.format("ffma"): ("inst", "5")}
    assert profile(tmp_path, wide(metrics)).kernels[0].flops == 10


def test_rates_of_the_full_set_become_counts(tmp_path: Path) -> None:
    """`--set full` records instructions per cycle and bytes per second."""
    metrics = {
        OP.format("ffma") + ".per_cycle_elapsed": ("inst/cycle", "100"),
        "smsp__cycles_elapsed.avg.per_second": ("cycle/nsecond", "1.5"),
        "gpu__time_duration.sum": ("msecond", "2"),
        "dram__bytes.sum.per_second": ("Gbyte/second", "400"),
    }
    one = profile(tmp_path, wide(metrics)).kernels[0]
    assert one.flops == pytest.approx(2 * 100 * 1.5e9 * 2e-3)
    assert one.dram_bytes == pytest.approx(400e9 * 2e-3)


def test_bytes_read_and_written_apart_are_added(tmp_path: Path) -> None:
    metrics = {"dram__bytes_read.sum": ("Kbyte", "3"), "dram__bytes_write.sum": ("byte", "5")}
    assert profile(tmp_path, wide(metrics)).kernels[0].dram_bytes == 3005


def test_what_has_no_time_or_bytes_is_said(tmp_path: Path) -> None:
    found = profile(tmp_path, wide({OP.format("ffma"): ("inst", "n/a")}))
    assert (found.kernels[0].flops, found.kernels[0].seconds) == (0, None)
    assert sum("1 of 1 kernels have no" in note for note in found.notes) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no CSV of Nsight Compute"), ("a,b\n1,2\n", "no CSV of Nsight"), ('"ID","Kernel Name"\n', "holds no kernel")],
)
def test_other_files_are_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        profile(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="there is no such file"):
        read_ncu(tmp_path / "none.csv")


cells = st.one_of(
    st.text(max_size=8), st.sampled_from(["Kernel Name", "ID", "Metric Name", "Metric Unit", "Metric Value"])
)
cells |= st.sampled_from([*every_metric(), "1,2,3", "-5", "1e400", "nan", "Gbyte/second", "inst/", "sm__x.sum"])


@given(st.lists(st.lists(cells, max_size=7), max_size=6), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_table_is_a_profile_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, rows, end: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text(end.join(",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows), newline="")
    try:
        found = read_ncu(path)
    except TableError as error:
        assert "\n" not in str(error)
    else:
        assert all(one.flops >= 0 for one in found.kernels)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_profile_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.bin"
    path.write_bytes(b'"ID","Kernel Name","dram__bytes.sum"\n' + content)
    try:
        read_ncu(path)
    except TableError as error:
        assert "\n" not in str(error)
