"""The page in a real browser: with pointer and keyboard, on a desk and on a phone, in the dark."""

import json
import shutil
from pathlib import Path

import pytest
from service_in_thread import Running, wait_until

from diglm.serve.page import files as page_files
from diglm.serve.settings import Limits

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
CHROMEDRIVER = shutil.which("chromedriver")
ARGUMENTS = """--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run
--disable-background-networking --disable-component-update --window-size=1280,1200""".split()
needs_browser = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (CHROMIUM and CHROMEDRIVER),
        reason="the page is tested in Chromium: apt-get install chromium chromium-driver",
    ),
]
pytestmark = needs_browser
TOKEN = "a token for the page"


class Browser:
    """Chromium, and the few things that the tests do with it."""

    def __init__(self):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ARGUMENTS:
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))

    def open(self, url):
        self.driver.get("about:blank")  # only what is behind # may differ, which loads nothing
        self.driver.get(url)
        wait_until(lambda: self.find("#main").get_attribute("aria-busy") == "false", 20)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.find(selector).text

    def click(self, selector):
        """In one step: between finding and clicking, the page may be drawn anew."""
        self.driver.execute_script("document.querySelector(arguments[0]).click()", selector)

    def says(self, selector, part, seconds=15):
        wait_until(lambda: part in self.text(selector), seconds)

    def complaints(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requested(self):
        """Addresses asked for since the last look."""
        events = (json.loads(e["message"])["message"] for e in self.driver.get_log("performance"))
        sent = [e for e in events if e["method"] == "Network.requestWillBeSent"]
        return {event["params"]["request"]["url"] for event in sent}

    def as_phone(self):
        metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def as_desk(self):
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.fixture(scope="module")
def browser():
    found = Browser()
    yield found
    found.driver.quit()


@pytest.fixture(scope="module")
def digits():
    """The model that comes with the package; it compiles for a while."""
    with Running({"mnist": Path("mnist")}, Limits(watch_seconds=30), patience=200) as running:
        yield running


@pytest.fixture(autouse=True)
def quiet(browser, request):
    """No test leaves a complaint in the console, or asks another machine for anything."""
    browser.complaints(), browser.requested()
    yield
    assert browser.complaints() == []
    others = ("about:", "data:", "blob:", "http://127.0.0.1:", "chrome")
    assert not [url for url in browser.requested() if not url.startswith(others)]


def fill(browser, selector, text):
    box = browser.find(selector)
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(text or Keys.BACKSPACE)


def test_a_row_is_answered_and_a_strange_one_refused(service, browser):
    browser.open(f"{service.url}/#flats")
    labels = [e.text for e in browser.driver.find_elements(By.CSS_SELECTOR, "#input label")]
    assert labels == ["area", "rooms", "built", "quarter", "notice"]
    browser.says("#verdict", "Answered")
    assert browser.text("#prediction").split()[0] in ("large", "small")
    assert "held out" in browser.text("#rank")
    browser.says("#reasons", "+")
    fill(browser, "#field-0", "99999")
    browser.says("#verdict", "Refused")
    browser.says("#reasons", "area")
    fill(browser, "#field-0", "")  # missing
    browser.says("#verdict", "Answered")
    built = browser.find("#field-2").get_attribute("value")
    fill(browser, "#field-2", "tomorrow")
    browser.says("#input [role=alert]", "YYYY-MM-DD")
    fill(browser, "#field-2", built)
    browser.says("#verdict", "Answered")
    browser.complaints()  # the refusal of that request is in the console, and meant to be


def test_shares_are_not_rounded_to_what_they_are_not(service, browser):
    browser.open(f"{service.url}/#line")
    script = (
        "import('/page/draw.js').then(({ percent }) => arguments[1](arguments[0].map(percent)))"
    )
    shares = [0, 0.0004, 0.004, 0.5, 0.996, 0.9996, 1]
    shown = browser.driver.execute_async_script(script, shares)
    assert shown == ["0 %", "< 0.1 %", "0.4 %", "50 %", "99.6 %", "> 99.9 %", "100 %"]


def test_sliders_ask_for_another_answer(service, browser):
    browser.open(f"{service.url}/#line")
    browser.says("#change", "It would be answered with")
    before = browser.text("#change table")
    slider = browser.find("#wanted")
    slider.send_keys(*([Keys.ARROW_RIGHT] * 12))
    wait_until(lambda: browser.text("#change table") != before)
    browser.click("#change [name='1']")  # column 1 is to be kept
    wait_until(lambda: "1 " in browser.text("#change") and "stays" in browser.text("#change"))
    now = browser.find("#field-0").get_attribute("value")
    browser.says("#change", "It would be answered with")
    browser.click("#change button")
    wait_until(lambda: browser.find("#field-0").get_attribute("value") != now)


def read_answers(browser):
    return browser.driver.execute_script(
        'return [...document.querySelectorAll("#file tbody tr")].map((e) => e.textContent)'
    )


def test_a_file_is_answered(service, browser, table, tmp_path):
    path = tmp_path / "rows.csv"
    shown = table.assign(notice=table.notice.dt.total_seconds(), built=table.built.dt.date)
    shown.assign(comment='with "quotes", and commas').to_csv(path, index=False)
    browser.open(f"{service.url}/#flats")
    browser.find("#csv").send_keys(str(path))
    browser.says("#file", f"{len(table)} rows: ")
    lines = browser.driver.find_elements(By.CSS_SELECTOR, "#file tbody tr")
    assert len(lines) == len(table)
    assert browser.find("#file a").get_attribute("download") == "rows-answers.csv"
    answers = read_answers(browser)
    german = shown.to_csv(index=False, sep=";", decimal=",", na_rep="?").replace("south", "süd")
    path.write_bytes(german.encode("latin-1"))  # as spreadsheets in much of Europe write it
    browser.find("#csv").send_keys(str(path))
    wait_until(lambda: len(read_answers(browser)) == len(table))
    south = (table.quarter == "south").tolist()
    assert [one for one, odd in zip(read_answers(browser), south, strict=True) if not odd] == [
        one for one, odd in zip(answers, south, strict=True) if not odd
    ]
    other = tmp_path / "other.csv"
    other.write_text("area,rooms\n1,2\n")
    browser.find("#csv").send_keys(str(other))
    browser.says("#file", "lacks the columns built, quarter, notice")


def test_a_digit_is_read_stroke_by_stroke(digits, browser):
    browser.open(digits.url)
    browser.says("#verdict", "Refused")  # an empty page
    canvas = browser.find("#canvas")
    pen = ActionChains(browser.driver, duration=10)
    pen.move_to_element_with_offset(canvas, -60, -90).click_and_hold().move_by_offset(125, 0)
    pen.move_by_offset(-70, 190).release().perform()
    browser.says("#prediction", "7", 60)
    wait_until(lambda: browser.text("#prediction").split()[0] == "7", 60)
    browser.says("#verdict", "Answered")
    assert browser.find("#history svg polyline")
    assert "Choose" in browser.text("#change [role=status]")
    third = browser.find("#change .buttons button:nth-child(4)")
    third.click()
    browser.says("#change", "Read as 3", 90)
    scribble = ActionChains(browser.driver, duration=5)
    scribble.move_to_element_with_offset(canvas, -120, -120).click_and_hold()
    for i in range(5):
        scribble.move_by_offset(240 if i % 2 == 0 else -240, 48)
    scribble.release().perform()
    browser.says("#verdict", "Refused", 60)


def test_a_digit_is_drawn_by_keyboard_alone(digits, browser):
    browser.open(digits.url)
    canvas = browser.find("#canvas")
    browser.driver.execute_script("arguments[0].focus()", canvas)
    keys = [Keys.ARROW_UP] * 9 + [" "] + [Keys.ARROW_DOWN] * 18 + [" "]
    ActionChains(browser.driver).send_keys(*keys).perform()
    wait_until(lambda: browser.text("#prediction").split()[0] == "1", 60)
    ActionChains(browser.driver).send_keys(Keys.ESCAPE).perform()
    browser.says("#history", "Nothing is drawn")


def test_tabs_reach_everything_and_everything_has_a_name(service, browser):
    browser.open(f"{service.url}/#flats")
    browser.says("#change", "It would be")
    nameless = browser.driver.execute_script(
        """return [...document.querySelectorAll("#view input, #view select, #view button")]
        .filter((e) => !(e.ariaLabel || e.textContent.trim() || e.labels?.length))
        .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    browser.driver.execute_script(
        "window.reached = [];"
        "addEventListener('focusin', ({ target }) => window.reached.push(target.id))"
    )
    ActionChains(browser.driver).send_keys(*([Keys.TAB] * 40)).perform()
    reached = browser.driver.execute_script("return window.reached")
    assert {"field-0", "field-3", "wanted", "margin", "csv"} <= set(reached)


@pytest.mark.parametrize("name", ["flats", "line", "cloud"])
def test_a_phone_shows_all_without_scrolling_sideways(service, browser, name):
    browser.as_phone()
    try:
        browser.open(f"{service.url}/#{name}")
        wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        browser.says("#output", "log p(x)", 60)
        assert browser.driver.execute_script(wide) <= 0
        assert browser.find("#output").rect["width"] > 300
    finally:
        browser.as_desk()


def test_the_dark_is_dark(service, browser):
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        browser.open(f"{service.url}/#line")
        colour = browser.find("body").value_of_css_property("background-color")
        assert max(int(part) for part in colour.strip("rgba()").split(",")[:3]) < 60
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_page_asks_for_a_token_where_one_is_needed(files, browser):
    limits = Limits(watch_seconds=30)
    with Running({"line": files["line"]}, limits, token=TOKEN) as running:
        browser.driver.get("about:blank")
        browser.driver.get(f"{running.url}/")
        wait_until(lambda: browser.find("#token").is_displayed())
        browser.find("#token").send_keys("wrong token", Keys.ENTER)
        browser.says("#token-error", "wrong")
        browser.find("#token").send_keys(TOKEN, Keys.ENTER)
        browser.says("#verdict", "Answered")
        browser.complaints()  # both refusals are in the console, and meant to be


def test_the_page_is_small_and_loads_nothing_from_elsewhere():
    found = page_files()
    assert sum(map(len, found.values())) < 60_000
    for name, content in found.items():
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text, name
