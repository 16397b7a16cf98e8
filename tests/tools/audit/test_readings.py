"""Which readings of a table are possible: right numbers are never called wrong, wrong ones beside their inputs are."""

import pytest

from runner.tools.audit.findings import MEASURED
from tests.tools.audit.test_tables import audited, graded, table, wrong

SCALING = ["75.25 | 1.000 | 1.000", "40.10 | 1.877 | 0.938", "21.30 | 3.533 | 0.883", "12.90 | 5.833 | 0.729"]
LABELS = {
    "options": ["np=1", "np=2", "np=4", "np=8"],
    "words behind": ["1 proc", "2 procs", "4 procs", "8 procs"],
    "words before": ["MPI 1", "MPI 2", "MPI 4", "MPI 8"],
    "hyphens": ["DDP-1", "DDP-2", "DDP-4", "DDP-8"],
    "products": ["A100 x 1", "A100 x 2", "A100 x 4", "A100 x 8"],
    "products before": ["1xV100", "2xV100", "4xV100", "8xV100"],
    "nodes": ["1 node x 1 GPU", "1 node x 2 GPUs", "1 node x 4 GPUs", "2 nodes x 4 GPUs"],
    "launchers": ["--nproc 1", "--nproc 2", "--nproc 4", "--nproc 8"],
    "slurm": ["-N 1 -n 1", "-N 1 -n 2", "-N 1 -n 4", "-N 2 -n 8"],
    "slurm per node": ["nodes=1 ntasks-per-node=1", "nodes=1 ntasks-per-node=2", "nodes=1 ntasks-per-node=4"]
    + ["nodes=2 ntasks-per-node=4"],
    "number words": ["single", "two ranks", "four ranks", "eight ranks"],
    "versions beside": ["torch 2.1, 1 GPU", "torch 2.1, 2 GPUs", "torch 2.1, 4 GPUs", "torch 2.1, 8 GPUs"],
    "names": ["laptop", "desktop", "workstation", "server"],
}


@pytest.mark.parametrize("kind", LABELS)
def test_an_efficiency_fits_its_speed_up_whatever_names_the_processes_and_a_wrong_one_is_found(kind: str) -> None:
    rows = [f"{label} | {row}" for label, row in zip(LABELS[kind], SCALING, strict=True)]
    text = table("Setup | Time (s) | Speedup | Efficiency", *rows)
    assert [grade for _, grade in graded(text)] == ["consistent"] * 8
    assert wrong(text.replace("0.883", "0.783")) == ([(0.783, "inconsistent")] if kind != "names" else [])


RIGHT = {
    "other baselines": "Model | Latency (ms) | Speedup vs PyTorch; a | 3.1 | 1.8x; b | 5.2 | 1.0x; c | 9 | 2.5x",
    "a part": "Kernel | Step time (ms) | Attention speedup; naive | 412 | 1.0x; a | 371 | 3.2x; b | 362 | 5.1x",
    "models": "Model | GPUs | img/s | Efficiency; A | 8 | 3100 | 100%; B | 16 | 1750 | 93%; C | 32 | 900 | 88%",
    "batches": "Batch size | Latency (ms) | Throughput speedup; 1 | 10.0 | 1.00; 4 | 16.0 | 2.50; 16 | 40 | 4.0",
    "epochs": "Optimizer | Epoch (s) | Epochs | Speedup; A | 100 | 90 | 1.00; B | 110 | 40 | 2.05; C | 180 | 20 | 2.5",
    "prices": "GPU | $/h | Time (h) | Relative performance per dollar; V | 3.06 | 10 | 1.00; A | 4.1 | 4.0 | 1.87",
    "benchmarks": "Benchmark | Time (s) | Speedup; geomean | | 2.10; a | 10 | 1.00; b | 12 | 2.40; c | 8 | 3.86",
    "text baseline": "Processes | Time (s) | Speedup; 2 | 13.35 | 1.65x; 4 | 8.78 | 2.51x; 8 | 6.52 | 3.38x",
    "lengths": "Tokens | Time (s) | Speedup; 128 | 1.1 | 1.00x; 512 | 1.92 | 1.35x; 2048 | 5.1 | 1.9x",
    "previous row": "Step | Time (s) | Speedup; a | 100 | -; b | 50 | 2.00; c | 40 | 1.25; d | 30 | 1.33",
    "constant p": (
        "n | Seq (s) | MPI (s) | Speedup | Efficiency; 1 | 30.1 | 19.3 | 1.56 | 39%; 2 | 69.3 | 33 | 2.1 | 52.5%"
    ),
    "rounded first": "Threads | Time (s) | Speedup | Efficiency; 1 | 1.6619 | 1.00 | 1.00; 2 | 1.2724 | 1.31 | 0.66",
    "any rate": "Ranks | Packets/sec | Efficiency; 1 | 1069.2 | 1.00; 2 | 1749.3 | 0.82; 4 | 3400 | 0.79",
    "thousands": "GPUs | Throughput | Speedup; 1 | 250K/sec | 1.0x; 4 | 950K/sec | 3.8x; 8 | 1.8M/sec | 7.2x",
    "missing": "GPUs | img/s FP32 | img/s AMP | Speedup (FP32 to AMP); 1 | <N/A> | 322.8 | <N/A>; 1 | 107 | 297 | 2.78",
    "means": (
        "Query | Serial (s) | Parallel (s) | Speedup; a | 80.3 | 42.0 | 1.91x; b | 74.6 | 57.6 | 1.30x; "
        "mean | 77.45 | 49.8 | 1.61x"
    ),
    "ideal": "GPUs | img/s | Ideal img/s | Efficiency; 1 | 100 | 100 | 100%; 2 | 190 | 200 | 95%; 4 | 352 | 400 | 88%",
    "times of two units": (
        "Severity | Baseline | Tuned | Improvement; low | 45 min avg | 8 min avg | 82.2%; "
        "mid | 6 hours avg | 1.8 hours avg | 70.0%; high | 2.5 hours avg | 22 min avg | 85.3%; "
        "rest | 24 hours avg | 4 hours avg | 83.3%"
    ),
    "things of two units": "Queue | Old | New | Improvement; a | 9 jobs | 7 jobs | 22%; b | 8 crates | 40 boxes | 15%",
    "elements": (
        "Threads | Time | Throughput; 1 | 11.124 ms | 898.98 Kelem/s; 2 | 5.916 ms | 1.6905 Melem/s; "
        "4 | 3.271 ms | 3.0573 Melem/s; 6 | 2.5 ms | 4.0 Melem/s; 8 | 1.9 ms | 5.2632 Melem/s"
    ),
    "rates": "Query | Mean time | Throughput | Speedup; a | 13.8 us | 72,000/s | 28x; b | 391 us | 2,500/s | baseline",
    "percentiles": "System | p50 (ms) | req/s; a | 210 | 4.7; b | 85 | 11.7; c | 62 | 16.1",
    "links": "link | speed-up; 1 Gbit/s | 1.71; 1 Gbit/s | 1.77; 100 Mbit/s | 0.22; 100 Mbit/s | 1.59",
    "words like differs": (
        "changed | first step that differs | by | largest difference | at step | right | levels; "
        "same | none | 0 | 0 | none | 346 | 2, 3; threads | 2 | 1.0e-08 | 2.4e-06 | 94 | 346 | 3; "
        "bf16 | 1 | 2.0e-05 | 5.8e-03 | 62 | 348 | 3; order | 1 | 4.7e-03 | 4.0e-01 | 36 | 354 | 3; "
        "seed | 1 | 9.6e-03 | 4.3e-01 | 36 | 348 | 3; torch | 1 | 5.6e-09 | 1.7e-06 | 94 | 346 | 3"
    ),
    "one number for all rows": (
        "run | time | faster | jitter time; a | 1.0 s | 1 | 1e-9 s; b | 1.0 s | 1 | 1e-8 s; "
        "c | 1.0 s | 1 | 1e-7 s; d | 1.0 s | 2 | 1e-7 s"
    ),
    "a mean of each batch": (
        "Batch size | Latency avg (ms) | Throughput avg (img/s); 8 | 9.5 | 900; 16 | 9.9 | 1500; 32 | 10.3 | 3106"
    ),
    "times of steps": "Method | Latency | Speedup; a | 45.8 ms | 1.0x; b | 29.2 ms | 1.57x; c | 22.1 ms/step | 2.43x",
    "times added up, one of them 0": (
        "GPUs | Compute (s) | Communication (s) | Speedup; 1 | 100 | 0 | 1.00; 2 | 50 | 5 | 1.82; 4 | 25 | 5 | 3.33"
    ),
    "no evidence but a row that prints 1": (
        "GPUs | Train (s) | Eval (s) | Speedup; 1 | 100 | 20 | 1.00; 2 | 55 | 10 | 1.70; 4 | 30 | 5 | 3.10"
    ),
    "numbers of one digit": "GPUs | Time (s) | Speedup; 1 | 3 | 1.00; 2 | 2 | 1.6; 4 | 1 | 2.7",
    "lines without a count of samples": "Model | accuracy; a | 88.19%; b | 98.69%",
    "groups below headings": (
        "GPUs | time | speedup; **A100** | |; 1 | 100 s | 1.00; 2 | 52 s | 1.92; **V100** | |; "
        "1 | 180 s | 1.00; 2 | 92 s | 1.96"
    ),
    "a row of deviations": (
        "Model | Before (s) | After (s) | Speedup; a | 120 | 60 | 2.00; b | 90 | 50 | 1.80; c | 80 | 50 | 1.60; "
        "Std. dev. | 33.8 | 26.6 | 0.20; Average (all 20) | 97 | 53 | 1.75"
    ),
    "a factor among percentages": (
        "Step | Old (s) | New (s) | Improvement; a | 5.12 | 4.10 | 1.25x; b | 9.0 | 6.1 | 32%; c | 8.1 | 4.5 | 44%"
    ),
    "places with a share behind them": "Checkpoint | Note; 45/90 (76.1%) | a; 60/90 (77.0%) | b",
    "seeds with digits enough": (
        "GPUs | Accuracy; 1 | 97.4312%; 1 | 97.5188%; 1 | 97.4701%; 2 | 97.4439%; 2 | 97.5002%; 4 | 97.4876%"
    ),
    "an efficiency of an ideal speed-up": "GPUs | Ideal speedup | Efficiency; 1 | 1 | 100%; 2 | 2 | 91%; 4 | 4 | 83%",
}


@pytest.mark.parametrize("lines", RIGHT.values(), ids=RIGHT)
def test_a_right_number_of_another_reading_is_not_called_wrong(lines: str) -> None:
    assert {grade for _, grade in graded(table(*lines.split("; ")))} <= {"consistent"}


WRONG = {
    "named columns": "GPUs | img/s, TF32 | img/s, AMP | Speedup (TF32 - AMP); 1 | 1055.78 | 3410.52 | !2.18",
    "two rows": "GPUs | Throughput (img/s) | Speedup; 1 | 388 | 1.00; 4 | 1478 | !2.81",
    "a whole number of processes beside the one that is said": (
        "Cores | Time | Speedup | Efficiency; 1 | 180 s | 1.0x | 100%; 2 | 95 s | 1.9x | 95%; 4 | 50 s | 3.6x | 90%; "
        "8 | 25 s | 7.2x | 90%; 10 | 18 s | 10.0x | !90%"
    ),
    "a percentage among shares": (
        "GPUs | Speedup | Efficiency; 1 | 1.00 | 1.00; 2 | 1.90 | !95; 4 | 3.40 | 0.85; 8 | 5.44 | 0.68"
    ),
    "before and after": "Query | Before (s) | After (s) | Speedup; a | 120 | 84 | 1.43; b | 95 | 61 | !1.96",
    "serial and parallel": "Cores | Serial (s) | Parallel (s) | Speedup; 2 | 100 | 52 | 1.92; 4 | 100 | 27 | !4.7",
    "precision": "GPUs | BF16 img/s | BF16 speedup; 1 | 512 | 1.00; 2 | 1003 | 1.96; 4 | 1950 | !3.18",
    "points": (
        "M | Acc. before (%) | Acc. after (%) | Gain (points); A | 71.2 | 74.0 | 2.8; B | 68.5 | 70.1 | 1.6; "
        "C | 75.0 | 78.0 | !4.0"
    ),
    "geometric mean": (
        "B | Old (s) | New (s) | Speedup; a | 18.8 | 10.0 | 1.88; b | 21 | 10.0 | 2.10; "
        "c | 15.5 | 10.0 | 1.55; geomean | | | !2.31"
    ),
    "per device": "GPUs | tokens/s | tokens/s/GPU; 8 | 24160 | 3020; 16 | 47840 | 2990; 64 | 185600 | !2090",
    "weak scaling": "GPUs | Time (s) | Weak scaling efficiency; 1 | 20.1 | 100%; 4 | 20.9 | 96%; 16 | 22.3 | !79%",
    "a baseline outside": (
        "p | Time (s) | Speedup; 2 | 13.35 | 1.65; 4 | 8.78 | 2.51; 8 | 6.52 | 3.38; 16 | 5.11 | !5.31"
    ),
    "no baseline": (
        "Hardware | Time | Speedup; 2x A100 | 1:00:00 | 1.95x; 4x A100 | 0:31:00 | 3.77x; "
        "8x A100 | 0:16:30 | !8.09x; 16x A100 | 0:09:00 | 13.0x"
    ),
    "on its side": "GPUs | 1 | 2 | 4; Time (s) | 100.0 | 52.0 | 27.1; Speedup | 1.00 | 1.92 | !4.69",
    "two columns": (
        "Model | Eager (ms) | Compiled (ms) | Speedup; a | 10.5 | 7.0 | 1.50x; b | 20.5 | 10.1 | 2.03x; "
        "c | 8.0 | 9.1 | !1.14x"
    ),
    "times of an epoch": (
        "GPUs | time per epoch (s) | efficiency; 1 | 100.0 | 100%; 2 | 104.0 | 96.2%; 4 | 109.0 | !81.7%"
    ),
    "samples and time": (
        "samples | time (s) | samples/s; 60000 | 10.0 | 6000; 60000 | 5.2 | 11538; 60000 | 2.9 | !26897"
    ),
    "correct ones": "N | correct | accuracy; 1067 | 941 | 88.19%; 1067 | 1050 | !97.41%",
    "samples in the heading": "Model | accuracy (N=1067); a | 88.1912%; b | !98.6891%; c | 98.4067%",
    "beside one that is slower": (
        "Backend | Time (s) | Speedup; NCCL | 100 | 1.0x; Gloo | 120 | 1.2x slower; MPI | 80 | !3.25x"
    ),
    "a predicted one": (
        "GPUs | Measured (s) | Predicted (s) | Predicted speedup; 1 | 100 | 100 | 1.00; 2 | 55 | 52 | 1.92; "
        "4 | 30 | 27 | !4.90"
    ),
    "efficiency of the ideal": "GPUs | Time (s) | Efficiency (% of ideal); 1 | 100 | 100%; 2 | 55 | 91%; 4 | 30 | !73%",
    "a row that prints baseline": "Mode | Time | Speedup; a | 13.8 us | !14x faster; b | 391 us | Baseline",
    "beside a wrong speed-up": (
        "n | Serial (s) | Parallel (s) | Speedup | Efficiency; 1 | 31.33 | 19.33 | !2.62 | 40.5%; "
        "2 | 169.33 | 93.00 | 1.82 | 45.5%; 3 | 340.67 | 189.33 | 1.80 | 45.0%"
    ),
}
"""Tables with one wrong number, which stands behind an exclamation mark."""


@pytest.mark.parametrize("lines", WRONG.values(), ids=WRONG)
def test_a_wrong_number_beside_what_it_follows_from_is_found_and_no_other(lines: str) -> None:
    before, _, number = lines.partition("!")
    (found,) = wrong(table(*f"{before}{number}".split("; ")))
    assert number.startswith(f"{found[0]:g}")


@pytest.mark.parametrize("words", ["BF16", "CI", "Low-power", "In-memory", "Loss-scaled", "Param-server", "F1 cars"])
def test_a_word_inside_a_heading_does_not_silence_its_column(words: str) -> None:
    rows = ["1 | 512 | 1.00", "2 | 1003 | 1.96", "4 | 1950 | 3.81"]
    head = f"GPUs | {words} throughput (samples/s) | {words} speedup"
    assert [grade for _, grade in graded(table(head, *rows))] == ["consistent"] * 3


def test_every_number_of_a_table_is_checked_or_has_a_reason() -> None:
    rows = ["1 | 100 | 1.00 | 71.2 | 5", "2 | 55 | 1.82 | N/A | 6", "4 | 30 | 1.2x slower | 70.1 | 7"]
    audit = audited(table("GPUs | Time (s) | Speedup | F1 | Seed", *rows))
    reasons = [number.reason for number in audit.unchecked]
    assert (len(audit.findings), len(reasons)) == (2, 12)
    assert sorted(set(reasons)) == ["is not a plain number", MEASURED]


TIMES = ("1 | 100 | 1.00", "2 | 55 | 1.90", "4 | 30 | 3.48")


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        ("Backend | Time (s) | Speedup", ("NCCL | 100 | 1.0x", "Gloo | 120 | 1.2x slower", "MPI | 80 | 1.25x")),
        ("Version | Time (s) | Speedup", ("a | 100 | 1.0x", "b | 80 | 1.25x faster", "c | 120 | 20% slower")),
        ("Device | Time (s) | vs. GPU", ("GPU | 10 | 1x", "CPU | 150 | 15x slower", "T4 | 5 | 2x")),
        ("Modus | Zeit (s) | Speedup", ("a | 100 | 1,0x", "b | 130 | 1,3x langsamer", "c | 50 | 2,0x")),
        ("后端 | 耗时 (s) | 加速比", ("NCCL | 100 | 1.0", "Gloo | 120 | 1.2倍慢", "MPI | 80 | 1.25")),
    ],
)
def test_what_is_slower_by_a_factor_is_not_taken_as_faster_by_it(head: str, rows: tuple[str, ...]) -> None:
    audit = audited(table(head, *rows))
    assert [finding.wrong for finding in audit.findings] == [False, False]
    assert [number.reason for number in audit.unchecked if number.reason != MEASURED] == ["is not a plain number"]


@pytest.mark.parametrize(
    "heading",
    ["Theoretical speedup", "Expected speedup", "Max speedup", "Linear speedup", "Target speedup", "Simulated speedup"]
    + ["Reported speedup", "Speedup (paper)", "Speedup [12]", "理论加速比", "预期加速比", "Amdahl speedup (p=0.95)"]
    + ["Modelled speedup", "Projected speedup", "Estimated speed-up", "Ideal speed-up", "Speedup (Gustafson)"],
)
def test_a_speed_up_that_was_not_measured_does_not_follow_from_measured_times(heading: str) -> None:
    audit = audited(table(f"N | Time (s) | {heading}", *TIMES))
    assert audit.findings == []
    assert {number.column for number in audit.unchecked if number.reason != MEASURED} == {heading}
    assert [grade for _, grade in graded(table("N | Time (s) | Speedup", *TIMES))][1:] == ["inconsistent"] * 2


@pytest.mark.parametrize("heading", ["Time to accuracy (min)", "Time to 75% acc (min)", "Cost (GPU-min)", "TTA (min)"])
def test_a_column_with_a_unit_of_time_explains_a_speed_up_whatever_else_it_names(heading: str) -> None:
    rows = ["8 | 2.0 | 120 | 1.0", "16 | 1.05 | 65.1 | 1.84", "32 | 0.55 | 36.3 | 3.31"]
    head = f"GPUs | Epoch time (min) | {heading} | Speedup"
    assert [grade for _, grade in graded(table(head, *rows))] == ["consistent"] * 3


def test_a_speed_up_may_be_that_of_times_added_up() -> None:
    rows = ["1 | 100 | 20 | 1.00", "2 | 55 | 10 | 1.85", "4 | 30 | 5 | 3.43"]
    findings = audited(table("GPUs | Train (s) | Eval (s) | Speedup", *rows)).findings[1:]
    assert [finding.grade for finding in findings] == ["consistent"] * 2
    assert [finding.formula for finding in findings] == ["120 / 65", "120 / 35"]


def test_a_change_in_percent_is_not_called_wrong_as_a_difference_of_times() -> None:
    rows = ("a | 6,027ms | 6,033ms | +0.1%", "b | 4,078ms | 4,070ms | -0.9%")
    assert (0.1, "inconsistent") not in wrong(table("Build | Before | After | Delta", *rows))


def test_a_slip_in_a_throughput_accuses_no_speed_up_beside_it() -> None:
    rows = "1 | 64 | 178 | 360 | 1.00; 2 | 64 | 184 | 969 | 1.93; 4 | 48 | 152 | 1263 | 3.51; 8 | 32 | 118 | 2169 | 6"
    text = table("GPUs | Batch per GPU | Step time (ms) | Images/s | Speedup", *rows.split("; "))
    assert wrong(text) == [(969, "inconsistent")]
    assert wrong(text.replace("969", "696").replace("1.93", "2.93")) == [(2.93, "flips")]


@pytest.mark.parametrize(
    "words",
    [
        "Speed-ups exclude the 40 s of start-up.",
        "加速比不含启动时间 40 秒。",
        "Speed-ups are of the training steps only.",
        "Times are medians of 5 runs, speed-ups the medians of the 5 ratios.",
    ],
)
def test_a_speed_up_that_leaves_out_what_its_times_hold_is_not_accused(words: str) -> None:
    text = table("GPUs | Total time (s) | Speed-up", "1 | 540 | 1.00", "2 | 293 | 1.98", "4 | 169 | 3.88")
    assert len(wrong(text)) == 2
    assert not wrong(f"{words}\n\n{text}")


@pytest.mark.parametrize(
    "text",
    [
        "It went from 3.0 minutes to 2.0 minutes, a speedup of 50%.",
        "推理时间从 182.3 秒降至 107.3 秒，加速比达到 41.1%。",
        "The runtime fell from 41.5 s to 8.5 s, a speedup of 4.7-5.2x depending on the grid.",
        "Training takes 10.0 hours. The forward pass is 1.3x faster and training takes 8.6 hours.",
        "训练时间从 200 秒降至 160 秒，速度提升 0.25 倍。",
        table(
            "System | ms | seq/s", "T4 | 80.0 | 100.0", "V1 | 40.0 | 200.0", "A1 | 20.0 | 400.0", "H1 x2 | 20.0 | 800.0"
        ),
    ],
)
def test_a_share_a_range_a_part_and_other_work_are_not_accused(text: str) -> None:
    assert not wrong(text)


def test_an_efficiency_that_only_a_made_up_number_of_processes_explains_is_not_checked() -> None:
    assert (
        graded(table("run | time (s) | parallel efficiency", "A | 100.0 | 0.93", "B | 37.2 | 0.71", "C | 16.1 | 0.88"))
        == []
    )
