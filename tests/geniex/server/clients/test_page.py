"""The tutorial's request, as a person sends it: by the page at `/` in a browser, and by curl."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.geniex.server.clients.conftest import DRAFT, TINY
from tests.geniex.server.live import LiveServer

PATIENCE = 60.0  # seconds for what must come, on a machine that does other things too

# as in the tutorial, with the names of the built-in pair
BODY = {
    "model": TINY,
    "messages": [{"role": "user", "content": "Hello! Briefly introduce yourself."}],
    "spec_type": "draft-mtp",
    "spec_draft_model": DRAFT,
    "spec_n_max": 3,
    "nctx": 8192,
    "max_completion_tokens": 2048,
    "temperature": 0.8,
    "top_p": 0.95,
    "stream": False,
}
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,2000",
    # nothing but the server is found
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    """A headless Chromium with a profile of its own, which notes what it requests."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    binary = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no chromium and chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    chrome = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        chrome.set_page_load_timeout(PATIENCE)
        yield chrome
    finally:
        chrome.quit()


def test_the_page_sends_the_tutorial_s_body_and_shows_the_answer(
    browser: webdriver.Chrome, live_server: LiveServer
) -> None:
    browser.get(f"{live_server.url}/")
    click(browser, "//button[.//*[@data-path='/v1/chat/completions']]")
    editor = find(browser, "//textarea[contains(@class, 'body-param__text')]")
    write(browser, editor, json.dumps(BODY))
    click(browser, "//button[contains(@class, 'execute')]")
    live = "//table[contains(@class, 'live-responses-table')]/tbody"
    status = find(browser, f"{live}//td[contains(@class, 'response-col_status')]")
    assert status.text.split()[0] == "200"
    shown = find(browser, f"{live}//td[contains(@class, 'response-col_description')]//code")
    check(json.loads(shown.text))
    requested = list(urls(browser))
    assert f"{live_server.url}/v1/chat/completions" in requested
    assert [url for url in requested if not url.startswith(f"{live_server.url}/")] == []


def test_curl_sends_the_tutorial_s_body_and_gets_the_answer(live_server: LiveServer) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("no curl on this machine")
    url = f"{live_server.url}/v1/chat/completions"
    # curl says `application/x-www-form-urlencoded` unless it is told otherwise
    header = "Content-Type: application/json"
    command = [curl, "-sS", "--noproxy", "*", url, "-H", header, "-d", json.dumps(BODY)]
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE)
    check(json.loads(done.stdout))


def check(answer: Any) -> None:
    """It is an answer, and its usage counts the drafts."""
    assert answer["model"] == TINY
    assert answer["choices"][0]["message"]["content"]
    details = answer["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] + details["rejected_prediction_tokens"] > 0
    assert answer["geniex"]["speculation"]["types"] == ["draft-mtp"]


def find(browser: webdriver.Chrome, path: str) -> WebElement:
    """The first element there that is shown, once it is."""

    def shown(browser: webdriver.Chrome) -> list[WebElement]:
        return [e for e in browser.find_elements(By.XPATH, path) if e.is_displayed()]

    wait = WebDriverWait(browser, PATIENCE, ignored_exceptions=[StaleElementReferenceException])
    return wait.until(shown, f"nothing at {path}")[0]


def click(browser: webdriver.Chrome, path: str) -> None:
    """Click an element, wherever the page has scrolled to."""
    browser.execute_script("arguments[0].click()", find(browser, path))


def write(browser: webdriver.Chrome, field: WebElement, text: str) -> None:
    """Put a text into a field as typing does: the page's framework hears of it."""
    browser.execute_script(
        "const set = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set;"
        "set.call(arguments[0], arguments[1]);"
        "arguments[0].dispatchEvent(new Event('input', {bubbles: true}));"
        "arguments[0].dispatchEvent(new Event('change', {bubbles: true}));",
        field,
        text,
    )


def urls(browser: webdriver.Chrome) -> Iterator[str]:
    """What has been requested of any host; the browser's own pages are no hosts."""
    log: Any = browser.get_log("performance")  # type: ignore[no-untyped-call]
    for entry in log:
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url: str = message["params"]["request"]["url"]
            if not url.startswith(("chrome:", "chrome-extension:", "data:", "blob:", "about:")):
                yield url
