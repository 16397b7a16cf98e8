"""`runner image`: packages, licences and advisories, of the lock file and of a real image."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from email.message import Message
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from referencing import Registry, Resource

from runner.core.errors import RequestError
from runner.supply.advisories import look_up
from runner.supply.packages import Package, installed_here, licence_of, of_image, read_lock, with_hashes
from runner.supply.sbom import bill
from runner.supply.shown import licences
from tests.support.projects import ROOT

if TYPE_CHECKING:
    from tests.support.projects import Project

HERE = Package("pypi", "jinja2", "3.1.6", "requirements.lock", ("BSD License",), hashes=("0" * 64,), marker="x == 'y'")
STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u4
Description: a library
 of several lines: with a colon

Package: gone
Status: deinstall ok config-files
Version: 1

Package: broken
"""
TOLD = {
    "python": [
        ["Torch", "2.3.1+cpu", None, "BSD-3", [], "/usr/lib"],
        ["My_Own.Package", "1", "MIT OR Apache-2.0", "", [], "/opt"],
        ["nameless", None, None, "", [], "/opt"],
        "no row",
    ],
    "dpkg": STATUS,
    "os": 'NAME="Debian"\nID=debian\n',
    "copyright": {"libc6": ["LGPL-2.1+", "GPL-2+", "\x1b[31mred"]},
}


def test_the_lock_file_is_read_with_its_hashes_markers_and_versions() -> None:
    text = (ROOT / "requirements.lock").read_text("utf-8")
    packages = read_lock(ROOT / "requirements.lock")
    assert len(packages) == sum(line[:1].isalnum() for line in text.splitlines())
    assert sum(len(one.hashes) for one in packages) == text.count("--hash=sha256:")
    (torch,) = [one for one in packages if one.name == "torch"]
    assert torch.marker is not None
    assert "linux" in torch.marker
    assert all(one.hashes for one in packages)


@pytest.mark.parametrize("text", ["", "# nothing\n", "torch>=2\n", "\x00\xff"])
def test_a_lock_file_that_pins_nothing_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "requirements.lock").write_text(text, "utf-8")
    with pytest.raises(RequestError, match="requirements.lock: it pins no package"):
        read_lock(tmp_path / "requirements.lock")


def test_what_an_image_says_becomes_packages_and_nothing_else() -> None:
    packages = of_image(TOLD)
    assert [one.purl for one in packages] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64",
        "pkg:pypi/my-own-package@1",
        "pkg:pypi/torch@2.3.1%2Bcpu",
    ]
    assert packages[0].licences == ("GPL-2+", "LGPL-2.1+", "\\x1b[31mred")
    locked = [Package("pypi", "torch", "2.3.1", "requirements.lock", hashes=("1" * 64,))]
    assert [one.hashes for one in with_hashes(packages, locked)] == [(), (), ("1" * 64,)]


def test_a_licence_is_taken_from_the_expression_then_the_name_then_the_classifiers() -> None:
    classifiers = ["License :: OSI Approved :: MIT License", "License :: OSI Approved"]
    assert licence_of("MIT AND Zlib", "BSD", classifiers) == (("MIT AND Zlib",), True)
    assert licence_of(None, "BSD", classifiers) == (("BSD",), False)
    assert licence_of(None, "UNKNOWN", classifiers) == (("MIT License",), False)
    assert licence_of(None, "Permission is hereby\ngranted " * 20, []) == ((), False)


def test_a_field_that_is_missing_is_no_error_where_another_package_reads_the_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Strict(Message):
        """As importlib_metadata has it, which takes the place of Python's own once something imports it."""

        def __getitem__(self, name: str) -> Any:
            if name not in self:
                raise KeyError(name)
            return super().__getitem__(name)

    facts = Strict()
    facts["Name"], facts["Version"] = "A_b", "1.0"
    monkeypatch.setattr(metadata, "distributions", lambda: [SimpleNamespace(metadata=facts)])
    assert installed_here() == {("a-b", "1.0"): ((), False)}


def test_licences_are_listed_with_their_packages_and_those_without_one_last() -> None:
    lines = licences([HERE, Package("deb", "b", "1", "x", ("BSD License", "GPL")), Package("pypi", "a", "1", "x")])
    assert lines == [
        *("licences of Python packages:", "     1  BSD License: jinja2", "     1  no licence named: a"),
        *("licences of Debian packages:", "     1  BSD License: b", "     1  GPL: b"),
    ]


def test_a_bill_of_the_same_packages_is_the_same_bytes_in_any_order() -> None:
    packages = read_lock(ROOT / "requirements.lock")
    one = bill(packages, "requirements.lock", "1", image=False)
    assert one == bill(reversed(packages), "requirements.lock", "1", image=False)
    other = bill(packages[1:], "requirements.lock", "1", image=False)
    assert json.loads(one)["serialNumber"] != json.loads(other)["serialNumber"]
    names = [part["bom-ref"] for part in json.loads(one)["components"]]
    assert len(names) == len(set(names)) == len({(part.name, part.version) for part in packages})


def test_the_lock_file_alone_gives_a_bill_without_an_engine(project: Project) -> None:
    shutil.copy(ROOT / "requirements.lock", project.root)
    done = project.runner("image", "--lock", "--sbom", "bill.json")
    assert done.code == 0, done.snapshot
    found = json.loads((project.root / "bill.json").read_bytes())
    assert (found["bomFormat"], found["specVersion"], found["metadata"]["component"]["type"]) == (
        "CycloneDX",
        "1.5",
        "application",
    )
    assert {"torch", "numpy"} <= {one["name"] for one in found["components"]}
    assert "advisories: not checked: --audit looks them up" in done.stdout
    shown = project.runner("image", "--lock", "--sbom", "-")
    assert json.loads(shown.stdout) == found
    without = project.runner("image", env={"DOCKER_HOST": f"unix://{project.root}/none"})
    assert without.code == 0
    assert "shown is what requirements.lock pins" in without.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--device", "tpu"], "--device tpu: cpu or cuda"),
        (["--lock", "--image", "x"], "--lock asks no engine"),
        (["--lock"], "requirements.lock: No such file"),
        (["--lock", "--sbom", "nowhere/bill.json"], "there is no such folder"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(project: Project, words: list[str], says: str) -> None:
    if len(words) == 3:
        shutil.copy(ROOT / "requirements.lock", project.root)
    done = project.runner("image", *words)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.snapshot
    assert says in done.stderr


def test_without_pip_audit_nothing_is_said_to_be_free_of_advisories(monkeypatch: pytest.MonkeyPatch) -> None:
    if Path(sys.executable).with_name("pip-audit").exists():
        pytest.skip("this Python has pip-audit")
    monkeypatch.setenv("PATH", "/nowhere")
    found = look_up([HERE])
    assert (found.checked, found.known) == (0, [])
    assert found.lines() == [
        "advisories: not checked for 1 packages: pip-audit is not installed: pip install pip-audit"
    ]


@pytest.mark.network
def test_pip_audit_says_of_each_package_what_is_known_or_why_it_was_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the advisory data can be reached depends on the network: a package is either checked or not, and said."""
    fetched(tmp_path / "venv", "pip-audit")
    monkeypatch.setenv("PATH", f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    packages = [Package("pypi", "jinja2", "2.10", "x"), Package("pypi", "jinja2", "3.1.6", "x"), HERE]
    found = look_up(packages)
    assert found.checked + sum(found.unchecked.values()) == 2
    assert found.checked == 0 or any(line.startswith("jinja2 2.10: ") for line in found.known)
    if not found.checked:
        assert "not checked" in found.lines()[0]
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    cut_off = look_up(packages)
    assert (cut_off.checked, sum(cut_off.unchecked.values())) == (0, 2)


@pytest.mark.network
def test_a_bill_holds_against_the_schema_of_cyclonedx(tmp_path: Path) -> None:
    fetched(tmp_path / "venv", "--no-deps", "cyclonedx-python-lib")
    (folder,) = (tmp_path / "venv").glob("lib/python*/site-packages/cyclonedx/schema/_res")
    check = schema_of(folder)
    packages = [*read_lock(ROOT / "requirements.lock"), *of_image(TOLD), HERE]
    check(json.loads(bill(packages, "an image", "sha256:1", image=True)))
    broken = json.loads(bill(packages, "an image", "sha256:1", image=True))
    broken["components"][0]["hashes"] = [{"alg": "SHA-256", "content": "no hash"}]
    with pytest.raises(Exception, match="no hash"):
        check(broken)


@pytest.mark.engine
def test_an_image_is_asked_for_what_is_installed_in_it(project: Project) -> None:
    base = os.environ.get("CPU_BASE_IMAGE", "python:3.11-slim")
    done = project.runner("image", "--image", base, "--sbom", "bill.json")
    assert done.code == 0, done.snapshot
    found = json.loads((project.root / "bill.json").read_bytes())
    purls = {one["purl"].partition("@")[0] for one in found["components"]}
    assert {"pkg:pypi/pip", "pkg:deb/debian/dpkg"} <= purls
    assert found["metadata"]["component"]["version"].startswith("sha256:")
    assert "Debian packages" in done.stdout
    missing = project.runner("image", "--image", "kit-not-there:1")
    assert (missing.code, missing.stderr.count("\n")) == (2, 1)
    assert "the image kit-not-there:1 is not there" in missing.stderr


def fetched(venv: Path, *words: str) -> None:
    """Install packages into an environment of their own."""
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    done = subprocess.run(
        [str(venv / "bin" / "pip"), "install", "--quiet", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def schema_of(folder: Path) -> Any:
    """Return what holds a document against CycloneDX 1.5, whose schema names two others."""
    schemas = {
        name: json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_bytes()) for name in ("spdx", "jsf-0.82")
    }
    main = json.loads((folder / "bom-1.5.SNAPSHOT.schema.json").read_bytes())
    registry: Any = Registry().with_resources(
        [(schema["$id"], Resource.from_contents(schema)) for schema in (*schemas.values(), main)]
        + [(f"{name}.SNAPSHOT.schema.json", Resource.from_contents(schema)) for name, schema in schemas.items()]
    )
    return jsonschema.Draft7Validator(main, registry=registry).validate
