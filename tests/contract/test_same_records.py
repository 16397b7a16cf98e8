"""At one layout, the record of every target is that of target local, but for places and times."""

from tests.contract.harness import Harness, Pods
from tests.contract.targets import TARGETS, of
from tests.support.launches import run_once
from tests.support.same_records import curve, differences

SMALL = ("--set", "epochs=2", "--set", "dataset=digits", "--set", "peak_milliseconds=0")
OTHERS = tuple(name for name in TARGETS if name != "local")


@of({"1+2": OTHERS})
def test_the_record_differs_from_that_of_local_in_nothing_but_places_and_times(harness: Harness, layout: str) -> None:
    words = ("mnist", "--layout", layout, *SMALL)
    done, there = harness.run(*words)
    assert done.code == 0, done.snapshot
    _, here = run_once(harness.project, *words, "--on", "local", "--device", "cpu")
    assert len(curve(here)[0]) == 2
    assert curve(there) == curve(here)
    assert differences(there, here) == []
    for record in (there, here):
        assert record["events"]["seen"] == record["events"]["expected"]
    if isinstance(harness, Pods):  # their output is read as a stream, not from the files of the workers
        return
    folders = [harness.project.results / "mnist" / one["launch"]["id"] / "raw" for one in (here, there)]
    mine, theirs = ({path.name for path in folder.iterdir()} for folder in folders)
    assert mine <= theirs
