"""What brings the observer into a container, as Compose reads it."""

import pytest

from runner.targets.compose.service import observed, service


@pytest.mark.parametrize(
    ("own", "of_image", "path"),
    [
        ({}, "", "/kit-observer/hooks"),
        ({}, "/opt/$x", "/kit-observer/hooks:/opt/$$x"),
        ({"PYTHONPATH": "src"}, "/opt/kit", "/kit-observer/hooks:src"),
    ],
)
def test_the_path_of_a_definition_or_else_of_the_image_stays(own: dict[str, str], of_image: str, path: str) -> None:
    bare = service(0, image="a:b", command=[], environment={"A": "1", **own}, binds={"/raw": "../raw/node0"})
    found = observed(bare, of_image)
    assert found["environment"] == {"A": "1", "KIT_OBSERVE": "/kit-observer/observer", "PYTHONPATH": path}
    assert [volume.get("read_only", False) for volume in found["volumes"]] == [False, True]
