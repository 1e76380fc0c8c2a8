"""A browser without a window, driven through chromedriver by the WebDriver protocol."""

import base64
import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

ARGUMENTS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--window-size=1440,1200", "--force-device-scale-factor=1",
]


class Browser:
    """One window. Use it in a `with`."""

    def __init__(self):
        self.profile = tempfile.mkdtemp()
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        for line in self.driver.stdout:
            if " on port " in line and line.rstrip().endswith("."):
                port = line.strip().rstrip(".").rsplit(" ", 1)[1]
                self.root = f"http://127.0.0.1:{port}"
                break
        options = {"args": [*ARGUMENTS, f"--user-data-dir={self.profile}"]}
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})
        self.session = f"/session/{made['sessionId']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait()
            shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def open(self, path):
        """Opens a file; returns how many milliseconds passed until its charts were drawn."""
        self.call("POST", f"{self.session}/url", {"url": path.as_uri()})
        wait = "const done = arguments[0]; const look = () => document.body.dataset.ready ? done(Number(document.body.dataset.ready)) : setTimeout(look, 5); look();"
        return self.call("POST", f"{self.session}/execute/async", {"script": wait, "args": []})

    def run(self, script, *arguments):
        """The value that a script returns."""
        return self.call("POST", f"{self.session}/execute/sync", {"script": script, "args": list(arguments)})

    def press(self, *keys):
        names = {"ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Escape": "\ue00c"}
        actions = []
        for key in keys:
            actions += [{"type": "keyDown", "value": names.get(key, key)}, {"type": "keyUp", "value": names.get(key, key)}]
        self.call("POST", f"{self.session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})
        self.settle()

    def pointer(self, *actions):
        """Moves (`(x, y)`), presses (`"down"`) and lets go (`"up"`), in the window's pixels."""
        steps = []
        for action in actions:
            if action in ("down", "up"):
                steps.append({"type": f"pointer{action.title()}", "button": 0})
            else:
                steps.append({"type": "pointerMove", "duration": 0, "x": int(action[0]), "y": int(action[1])})
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps}
        self.call("POST", f"{self.session}/actions", {"actions": [mouse]})
        self.settle()

    def settle(self):
        """Waits until what was asked for is drawn."""
        wait = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));"
        self.call("POST", f"{self.session}/execute/async", {"script": wait, "args": []})

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.call("GET", f"{self.session}/screenshot")))
