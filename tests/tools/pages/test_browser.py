"""The page in a real browser: on a phone, a wide screen, in the dark and in print, it is whole and runs nothing."""

import base64
import re
from pathlib import Path

import pytest

from runner.tools.pages.files import write_report
from tests.support.browser import Browser, Tab
from tests.support.projects import MINIMAL
from tests.support.records import Make
from tests.tools.pages.conftest import HOSTILE, make_messages, make_scaling

pytestmark = pytest.mark.browser

TOO_WIDE = """
[...document.querySelectorAll("body *")].filter(node => {
  const box = node.getBoundingClientRect();
  const wide = document.documentElement.clientWidth;
  return box.right > wide + 1 && !node.closest(".scroll, defs, clipPath");
}).map(node => node.tagName + " " + (node.textContent || "").slice(0, 40))
"""
CUT = """
[...document.querySelectorAll("figure svg")].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter(text => {
    const box = text.getBoundingClientRect();
    return box.left < frame.left - 3 || box.right > frame.right + 3 || box.top < frame.top - 3
      || box.bottom > frame.bottom + 3;
  }).map(text => text.textContent);
})
"""
CONTRAST = """
(() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => {
    const linear = c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = numbers(colour).slice(0, 3).map(c => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = node => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if ((numbers(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return Math.min(...[...document.querySelectorAll("h1, h2, h3, h4, p, li, td, th, dt, dd, a, figcaption, svg text")]
    .filter(node => node.textContent.trim()).map(node => {
      const style = getComputedStyle(node);
      const pair = [light(node.closest("svg") ? style.fill : style.color), light(ground(node))].sort((a, b) => b - a);
      return (pair[0] + 0.05) / (pair[1] + 0.05);
    }));
})()
"""
DEAD_LINKS = """
[...document.querySelectorAll("a[href]")].map(node => node.getAttribute("href"))
  .filter(href => !href.startsWith("#") || !document.getElementById(href.slice(1)))
"""
TWICE = """
(() => { const ids = [...document.querySelectorAll("[id]")].map(node => node.id);
  return ids.filter((id, place) => ids.indexOf(id) !== place); })()
"""


@pytest.fixture
def page(scaling: Path, tmp_path: Path) -> Path:
    path = tmp_path / "the page #1 %41?.html"
    write_report([scaling], path, experiment=None, plots=None)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_overflows_or_is_cut_and_all_can_be_read(browser: Browser, page: Path, width: int, scheme: str) -> None:
    tab = Tab(browser, page, width, dark=scheme == "dark")
    assert tab.value("document.documentElement.scrollWidth") <= width
    assert tab.value(TOO_WIDE) == []
    assert tab.value(CUT) == []
    assert tab.value("document.querySelectorAll('figure svg').length") >= 8
    assert tab.value(CONTRAST) >= 4.5  # WCAG 2.1, level AA
    ground = sum(map(int, re.findall(r"\d+", tab.value("getComputedStyle(document.body).backgroundColor"))))
    assert ground < 150 if scheme == "dark" else ground > 700
    assert tab.complaints == []
    assert tab.requests == []


@pytest.mark.slow
def test_every_number_of_a_table_leads_to_its_runs(browser: Browser, page: Path) -> None:
    tab = Tab(browser, page, 1400)
    assert tab.value(DEAD_LINKS) == []
    assert tab.value(TWICE) == []
    cells = "[...document.querySelectorAll('section:has(h2) > h3:first-of-type + .scroll td')]"
    assert tab.value(f"{cells}.length") > 10
    assert tab.value(f"{cells}.filter(node => node.textContent && !node.querySelector('a')).length") == 0
    tab.value("[...document.querySelectorAll('td a')].find(node => node.textContent.startsWith('6.00')).click()")
    target = "document.querySelector('div.cell:target')"
    assert tab.value(f"{target}.querySelector('h4').textContent") == "1x2"
    assert tab.value(f"{target}.querySelectorAll('tbody tr').length") == 3


def test_names_and_values_of_strangers_run_nothing_and_break_nothing(
    browser: Browser, results: Path, make: Make, tmp_path: Path
) -> None:
    source = {"source": HOSTILE, "rows": [{"layout": "1x2", "hardware": HOSTILE, "speedup": 1.5, "note": HOSTILE}]}
    make_scaling(
        results,
        make,
        {"1x1": [10.0, 10.1, 9.9], "1x2": [6.0, 6.1, 5.9]},
        axes={"way": HOSTILE},
        args={"name": HOSTILE},
        program=HOSTILE,
        facts={"host": HOSTILE, "device_name": HOSTILE, "torch": HOSTILE},
        argv=[["torchrun", HOSTILE]],
        code={"commit": HOSTILE, "sources_sha256": HOSTILE},
        definition={**MINIMAL, "summary": HOSTILE, "published": source},
    )
    make_messages(results, make, HOSTILE)
    path = tmp_path / "page.html"
    write_report([results], path, experiment=None, plots=None)
    for width in (400, 1400):
        tab = Tab(browser, path, width)
        assert tab.value("window.stolen === undefined")
        assert tab.value("document.querySelectorAll('script, img, iframe, object').length") == 0
        assert tab.value(TOO_WIDE) == []
        assert tab.complaints == []
        assert tab.requests == []
        assert tab.value("document.querySelectorAll('figure svg').length") >= 1
        drawn = "[...document.querySelectorAll('figure svg')].map(node => node.textContent).join()"
        assert "<script>" in tab.value(drawn)
        assert "49" not in tab.value("document.querySelector('h1').textContent")


@pytest.mark.slow
def test_print_is_light_also_for_a_dark_screen(browser: Browser, page: Path) -> None:
    tab = Tab(browser, page, 1400, dark=True)
    tab.ask("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert tab.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.value("getComputedStyle(document.querySelector('figure svg text')).fill") == "rgb(0, 0, 0)"
    assert len(base64.b64decode(tab.ask("Page.printToPDF")["data"])) > 20_000
