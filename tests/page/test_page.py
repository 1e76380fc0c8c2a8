"""The page of `cairn report` in a browser: what is drawn, what the pointer and the keys do, and how soon a million events are there."""

import os
import pathlib
import subprocess

import pytest

from webdriver import Browser

HERE = pathlib.Path(__file__).parent
HOME = pathlib.Path(os.environ["ASCEND_HOME_PATH"])


@pytest.fixture(scope="module")
def browser():
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A function that makes the page of a C program."""
    folder = tmp_path_factory.mktemp("pages")

    def make(source, *flags):
        name = source.stem
        subprocess.run(["gcc", "-g", "-pthread", f"-I{HOME}/include", *flags, str(source), f"-L{HOME}/lib64", "-lascendcl", "-o", name], cwd=folder, check=True)
        for arguments in (["record", "--stacks", "-o", f"{name}.cairn", "--", f"./{name}"], ["report", f"{name}.cairn"]):
            subprocess.run([str(HOME / "bin/cairn"), *arguments], cwd=folder, check=True, capture_output=True)
        return folder / f"{name}.html"

    return make


@pytest.fixture(scope="module")
def race(pages):
    return pages(HERE.parent / "check/order.c")


def pixels(browser, chart):
    """How many different colours a chart has."""
    return browser.run("""
        const canvas = document.querySelector(arguments[0] + " canvas"), data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return new Set(new Uint32Array(data.buffer)).size;""", chart)


def box(browser, chart):
    browser.run("document.querySelector(arguments[0]).scrollIntoView({ block: 'center' })", chart)
    return browser.run("const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.left, b.top, b.width, b.height];", chart)


def test_everything_is_drawn(browser, race):
    browser.open(race)
    for chart, colours in (("#overview", 2), ("#memory", 4), ("#map", 4), ("#streams", 4)):
        assert pixels(browser, chart) >= colours, chart
    assert browser.run("return document.querySelectorAll('.card').length") == 6
    assert browser.run("return document.querySelectorAll('.table').length") > 4
    text = browser.run("return document.querySelector('.finding').textContent")
    assert "nothing orders them" in text and "order.c:" in text
    drawn = browser.run("return document.querySelector('.finding svg')?.textContent")
    assert drawn and "missing" in drawn and "stream 1" in drawn and "stream 2" in drawn
    assert browser.run("return document.querySelectorAll('.finding svg path[stroke-dasharray]').length") == 1


def test_the_pointer_shows_and_zooms(browser, race):
    browser.open(race)
    left, top, width, height = box(browser, "#memory")
    browser.pointer((left + width * 0.8, top + height * 0.8))
    assert "aclrtMalloc" in browser.run("return document.getElementById('tip').textContent")
    browser.pointer("down", "up")
    details = browser.run("return document.getElementById('details').textContent")
    assert "0x" in details and "order.c:" in details
    before = browser.run("return document.querySelector('#memory canvas').toDataURL()")
    browser.pointer((left + width * 0.3, top + 50), "down", (left + width * 0.5, top + 60), "up")
    assert browser.run("return document.querySelector('#memory canvas').toDataURL()") != before
    left, top, width, height = box(browser, "#streams")
    browser.press("0")
    shown = set()
    for x in range(100, int(width), 6):
        browser.pointer((left + x, top + 16))
        shown.add(browser.run("const tip = document.getElementById('tip'); return tip.hidden ? '' : tip.querySelector('b').textContent"))
    assert "aclrtMemsetAsync" in shown, shown


def test_the_keys_do_the_same(browser, race):
    browser.open(race)
    browser.run("document.getElementById('memory').focus()")
    start = browser.run("return document.querySelector('#memory canvas').toDataURL()")
    browser.press("+", "+", "ArrowRight")
    assert browser.run("return document.querySelector('#memory canvas').toDataURL()") != start
    browser.press("0")
    assert browser.run("return document.querySelector('#memory canvas').toDataURL()") == start
    browser.press("p", "ArrowUp")
    assert not browser.run("return document.getElementById('details').hidden")
    browser.press("Escape")
    assert browser.run("return document.getElementById('details').hidden")
    theme = browser.run("return document.documentElement.dataset.theme")
    browser.press("t")
    assert browser.run("return document.documentElement.dataset.theme") != theme
    browser.press("f")
    assert "finding" in browser.run("return document.activeElement.className")


def test_a_million_events(browser, pages):
    path = pages(HERE / "many.c", "-O1")
    entries = browser.open(path)
    assert browser.run("return document.getElementById('about').textContent").count(",") >= 2, "more than a million entries"
    assert pixels(browser, "#memory") > 20
    print(f"drawn after {entries:.0f} ms; goal 2000")
