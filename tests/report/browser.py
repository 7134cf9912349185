"""Chromium, asked through its DevTools protocol."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 60
"""What it may take to start, or to answer."""


def program() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of it. `problems` are what its console said, what was thrown, and what it tried to load."""

    def __init__(self, connection: websocket.WebSocket) -> None:
        self.connection = connection
        self.numbers = itertools.count(1)
        self.problems: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self.numbers)
        self.connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def open(self, file: Path, width: int = 1280, dark: bool = False, scripts: bool = True) -> None:
        """Load a file and wait for it. An alert is a problem, and is answered."""
        self.problems.clear()
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[feature])
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.connection.send(
            json.dumps(
                {"id": next(self.numbers), "method": "Page.navigate", "params": {"url": file.as_uri()}}
            )
        )
        while self._receive().get("method") != "Page.loadEventFired":
            pass

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, text=text)

    def _receive(self) -> dict[str, Any]:
        message = json.loads(self.connection.recv())
        parameters = message.get("params", {})
        match message.get("method"):
            case "Log.entryAdded" if parameters["entry"]["level"] in ("warning", "error"):
                self.problems.append(parameters["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.problems.append(json.dumps(parameters))
            case "Page.javascriptDialogOpening":
                self.problems.append(f"dialog: {parameters['message']}")
                answer = {
                    "id": next(self.numbers),
                    "method": "Page.handleJavaScriptDialog",
                    "params": {"accept": True},
                }
                self.connection.send(json.dumps(answer))
            case "Network.requestWillBeSent" if not parameters["request"]["url"].startswith(
                ("file:", "data:")
            ):
                self.problems.append(f"request: {parameters['request']['url']}")
        return message


@contextlib.contextmanager
def started(executable: str, folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own in `folder`, without a sandbox, as the tests may run as root."""
    options = (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
    )
    command = [executable, *options, "--remote-debugging-port=0", "--remote-allow-origins=*"]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--no-first-run", f"--user-data-dir={folder}", "about:blank"], stdout=log, stderr=log
        )
    try:
        browser = Browser(websocket.create_connection(_address(folder, process), timeout=SECONDS))
        yield browser
        browser.connection.close()
    finally:
        process.terminate()
        process.wait()


def _address(folder: Path, process: subprocess.Popen) -> str:
    """Of its first page."""
    from urllib.request import urlopen

    told, until = folder / "DevToolsActivePort", time.monotonic() + SECONDS
    while time.monotonic() < until and process.poll() is None:
        if told.exists() and (lines := told.read_text().splitlines()):
            with urlopen(f"http://127.0.0.1:{lines[0]}/json/list", timeout=SECONDS) as answer:
                pages = [page for page in json.load(answer) if page["type"] == "page"]
            if pages:
                return pages[0]["webSocketDebuggerUrl"]
        time.sleep(0.05)
    raise RuntimeError(f"Chromium did not start: {(folder / 'chromium.log').read_text()[-500:]}")
