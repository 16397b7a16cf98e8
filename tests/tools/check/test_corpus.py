"""Right training scripts in many styles, and the same with one mistake each; the truth of each was measured."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.definitions.choices import Selection
from runner.tools.check.check_command import request
from runner.tools.check.checking import check
from runner.tools.check.mistakes import MISTAKE, Verdict

HERE = Path(__file__).parent
SCRIPTS = HERE / "scripts"
MISTAKES = yaml.safe_load((HERE / "mistakes.yaml").read_text("utf-8"))
NEAR = 5
"""So many lines a finding may be away from the line that a person changes.

A mistake that is `seen: not` leaves the verdict unknown.
"""
FEW = ("chinese_norm", "numpy_bucket", "every rank is rank 0 of the sampler", "random_split with the seed of the rank")
"""What is checked without the rest of the corpus, too."""
pytestmark = pytest.mark.usefixtures("forked")


def _slow_but_few(value: Any, name: str) -> Any:
    return pytest.param(value, id=name, marks=[] if name in FEW else [pytest.mark.slow])


def checked(folder: Path, name: str, change: list[list[str]]) -> Verdict:
    """Check a script in which some texts are changed, each of which is there exactly once."""
    text = (SCRIPTS / f"{name}.py").read_text("utf-8")
    for old, new in change:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    script = folder / f"{name}.py"
    script.write_text(text, "utf-8")
    arguments = text.partition("\n")[0].removeprefix("# args:").split() if text.startswith("# args:") else []
    return check(request(Selection(str(script), arguments), 2)[1], 2, 300, folder / "seen", lambda _: None)


@pytest.mark.parametrize("name", [_slow_but_few(path.stem, path.stem) for path in sorted(SCRIPTS.glob("*.py"))])
def test_no_mistake_is_found_in_a_right_script(name: str, tmp_path: Path) -> None:
    verdict = checked(tmp_path, name, [])
    assert [found for found in verdict.findings if found.level == MISTAKE] == []
    is_unseen = name == "trainer_stream"  # one rank hands the samples on
    assert (verdict.word, bool(verdict.unknown)) == (("unknown", True) if is_unseen else ("same", False))


WRAPPED = "torch.nn.Linear(16, 2)))"
HOOKED = f"""{WRAPPED}
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    classifier.register_comm_hook(None, fp16_compress_hook)"""
LOSS = "loss = F.cross_entropy(classifier(features), labels)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "change", "off"),
    [
        # Epochs that are shorter than what is replayed, of workers that fetch batches ahead.
        ("zero_redundancy", [["Waves(320)", "Waves(64)"], ["num_workers=1", "num_workers=2"]], 1e-5),
        # A learning rate that grows as the samples of a step do.
        (
            "class_balance",
            [["40 // dist.get_world_size()", "40"], ["lr=1e-2", "lr=1e-2 * dist.get_world_size()"]],
            1e-5,
        ),
        # Gradients that are averaged, or computed, in half precision.
        ("class_balance", [[WRAPPED, HOOKED]], 3e-3),
        ("class_balance", [[LOSS, f"with torch.autocast('cpu', torch.bfloat16): {LOSS}"]], 3e-2),
    ],
)
def test_a_right_script_stays_right_however_it_is_scheduled_or_fed(
    tmp_path: Path, script: str, change: list[list[str]], off: float
) -> None:
    verdict = checked(tmp_path, script, change)
    assert (verdict.word, verdict.unknown) == ("same", [])
    assert max(verdict.off) < off


@pytest.mark.parametrize("entry", [_slow_but_few(entry, entry["name"]) for entry in MISTAKES])
def test_a_mistake_is_named_by_kind_and_line(entry: dict[str, Any], tmp_path: Path) -> None:
    verdict = checked(tmp_path, entry["script"], entry["change"])
    if entry.get("seen") == "not":
        assert verdict.word == "unknown"
        return
    lines = (tmp_path / f"{entry['script']}.py").read_text("utf-8").splitlines()
    (at,) = [number for number, line in enumerate(lines, 1) if entry["at"] in line]
    near = [found for found in verdict.findings if found.line and abs(found.line - at) <= NEAR]
    assert {entry["kind"], *entry.get("or", [])} & {found.kind for found in near if found.level == MISTAKE}, verdict
