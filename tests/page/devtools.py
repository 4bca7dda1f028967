"""A headless Chromium over a pipe, by the DevTools protocol, with nothing but the standard library."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "google-chrome")


def find_browser():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One tab. Everything that it asked of the network, and every error it met, is kept."""

    def __init__(self, width=1280, height=900):
        self.home = tempfile.mkdtemp(prefix="tapedeck-page-")
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        saved = [os.dup(fd) for fd in (to_read, to_write)]  # out of the way of 3 and 4
        high = [self._above(fd) for fd in saved]

        def wire():
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [find_browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
                   "--force-device-scale-factor=1", f"--user-data-dir={self.home}", "--remote-debugging-pipe", "about:blank"]
        self.log = open(os.path.join(self.home, "log"), "wb")
        self.process = subprocess.Popen(command, preexec_fn=wire, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        for fd in (to_read, to_write, *saved, *high):
            os.close(fd)
        self.number, self.buffer, self.session = 0, b"", None
        self.requests, self.errors, self.events = [], [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.resize(width, height)

    @staticmethod
    def _above(fd, least=20):
        import fcntl
        return fcntl.fcntl(fd, fcntl.F_DUPFD, least)

    # ---- the protocol ----

    def _message(self, timeout):
        end = time.monotonic() + timeout
        while b"\0" not in self.buffer:
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                return None
            data = os.read(self.back, 1 << 20)
            if not data:
                raise RuntimeError("the browser has gone: " + open(self.log.name, errors="replace").read()[-2000:])
            self.buffer += data
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        self.events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            if "getImageData" not in params["entry"]["text"]:  # the tests read the picture back, the page never does
                self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.errors.append("console: " + json.dumps(params["args"])[:500])
        elif method == "Page.javascriptDialogOpening":
            self.errors.append("dialog: " + params["message"])

    def call(self, method, timeout=60, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self._message(timeout)
            if answer is None:
                raise RuntimeError(f"no answer to {method} within {timeout} s")
            if answer.get("id") != self.number:
                self._note(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def wait_for(self, event, timeout=60):
        while event not in self.events:
            message = self._message(timeout)
            if message is None:
                raise RuntimeError(f"no {event} within {timeout} s")
            self._note(message)

    # ---- what a person does ----

    def open(self, path):
        """Opens a file; returns the seconds until it had been drawn."""
        self.events.clear()
        start = time.monotonic()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait_for("Page.loadEventFired")
        self.settle()
        return time.monotonic() - start

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", expression))
        return result["result"].get("value")

    def settle(self):
        """Until two frames have been drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector):
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText).join('\\n')")

    def resize(self, width, height, scale=1, mobile=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile)

    def media(self, scheme="light", kind=""):
        self.call("Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def hover(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.settle()

    def click(self, x, y, count=1):
        self.mouse("mouseMoved", x, y)
        for number in range(1, count + 1):
            self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=number)
            self.mouse("mouseReleased", x, y, button="left", clickCount=number)
        self.settle()

    def drag(self, x, y, to_x, to_y):
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for share in (0.3, 0.6, 1):
            self.mouse("mouseMoved", x + (to_x - x) * share, y + (to_y - y) * share, button="left", buttons=1)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1)
        self.settle()

    def click_on(self, selector):
        box = self.evaluate(f"(e => (e.scrollIntoView({{block: 'center'}}), e = e.getBoundingClientRect(), "
                            f"[e.x + e.width / 2, e.y + e.height / 2]))(document.querySelector({json.dumps(selector)}))")
        self.click(*box)

    def wheel(self, x, y, delta, ctrl=False):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta, modifiers=2 if ctrl else 0)
        self.settle()

    def key(self, key, shift=False):
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, modifiers=8 if shift else 0)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, modifiers=8 if shift else 0)
        self.settle()

    def type(self, text):
        self.call("Input.insertText", text=text)
        self.settle()

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def print(self, path):
        data = self.call("Page.printToPDF", printBackground=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close", timeout=10)
            self.process.wait(10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)
