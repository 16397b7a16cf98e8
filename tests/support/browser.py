"""A real browser, headless Chromium, spoken to over a pipe by the DevTools protocol: no driver and no network."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)
_BYTES = 1_048_576


def find() -> str | None:
    """Return where a browser is."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """A running browser; a command that it refuses is an AssertionError."""

    def __init__(self, to: int, answers: int) -> None:
        self._to, self._from = to, answers
        self._rest = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that arrive before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        data = json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def wait_for(self, method: str) -> None:
        """Wait for an event."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._next())

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._from, _BYTES)
            assert data, "the browser has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)


class Tab:
    """One page in the browser, as wide as asked for, on a light or a dark screen."""

    def __init__(self, browser: Browser, page: Path, width: int, *, dark: bool = False) -> None:
        self._browser = browser
        browser.events.clear()
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 800)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.url = page.absolute().as_uri()
        self.ask("Page.navigate", url=self.url)
        browser.wait_for("Page.loadEventFired")

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.ask(method, self._session, **params)

    def value(self, expression: str) -> Any:
        """Evaluate JavaScript in the page."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    @property
    def complaints(self) -> list[Any]:
        """What the page has written to the console."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self._browser.events if event.get("method") in kinds]

    @property
    def requests(self) -> list[str]:
        """Every address that was asked for, but for the page itself and data in the page."""
        asked = (event for event in self._browser.events if event.get("method") == "Network.requestWillBeSent")
        addresses = (event["params"]["request"]["url"] for event in asked)
        return [url for url in addresses if url != self.url and not url.startswith("data:")]


@contextmanager
def running() -> Iterator[Browser]:
    """Start a browser, and end it with all of its processes."""
    path = find()
    assert path is not None
    (here, to), (answers, there) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="kit-browser-", ignore_cleanup_errors=True) as own:
        process = subprocess.Popen(
            # The protocol is spoken over the descriptors 3 and 4.
            ["bash", "-c", f'exec "$@" 3<&{here} 4>&{there}', "browser", path, *FLAGS, f"--user-data-dir={own}"],
            pass_fds=(here, there),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": own},
            start_new_session=True,
        )
        os.close(here)
        os.close(there)
        browser = Browser(to, answers)
        try:
            yield browser
        finally:
            os.killpg(process.pid, 9)
            process.wait()
            os.close(to)
            os.close(answers)
