"""Takes the screenshots of the documentation from reports on the tutorial's model and on a table.

    python docs/build_screenshots.py

Needs Chromium on the path, and playwright. The data shown are scikit-learn's digits and diabetes records.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"
# Chromium's options for a machine without display, user and network.
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
WIDTH, HEIGHT = 1320, 1000
EXHUME = (sys.executable, "-c", "from exhume.cli import main; main()")


def tutorial(folder: Path) -> tuple[Path, Path]:
    """The files and commands of docs/tutorials/audit.md: its first report, and one with measured defences."""
    for block in re.findall(r"^```python\n(.*?)^```", (DOCS / "tutorials" / "audit.md").read_text(), flags=re.M | re.S):
        if named := re.match(r"# (\w+\.py)\n", block):
            (folder / named.group(1)).write_text(block)
    subprocess.run([sys.executable, "train.py"], cwd=folder, check=True)
    words = (
        "audit --model mymodel.py:build --weights after.safetensors --initial before.safetensors --input-shape 1,8,8 "
        "--know pixel_mean=0.3 --know pixel_std=0.38 --truth images.npy --labels classes.npy "
        "--held-out other_images.npy --held-out-labels other_classes.npy --name tutorial"
    )
    for more in ("--out audit", "--defences --out defended"):
        subprocess.run([*EXHUME, *f"{words} {more}".split()], cwd=folder, check=True)
    return folder / "audit" / "report.html", folder / "defended" / "report.html"


def records(folder: Path) -> Path:
    """A report on diabetes records."""
    train = "train rf --data diabetes --samples 6 --ratio 40 --activation gelu --out records"
    subprocess.run([*EXHUME, *train.split()], cwd=folder, check=True)
    audit = "audit --run records --name diabetes --out table"
    subprocess.run([*EXHUME, *audit.split()], cwd=folder, check=True)
    return folder / "table" / "report.html"


def opened(browser: Browser, path: Path, scheme: Literal["light", "dark"] = "light") -> Page:
    """Opens a page from disk; its header scrolls with the page, so that it covers nothing."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.add_style_tag(content="header { position: static !important }")
    return page


def screenshot(page: Page, element: str, name: str) -> None:
    """Saves an image of one element of the open page."""
    page.locator(element).first.screenshot(path=IMAGES / name)


def take_report(browser: Browser, audit: Path) -> None:
    """The head of the report in both themes, and its gallery."""
    top = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT}
    page = opened(browser, audit)
    page.screenshot(path=IMAGES / "audit_report.png", clip=top)
    screenshot(page, "#gallery", "audit_gallery.png")
    opened(browser, audit, "dark").screenshot(path=IMAGES / "audit_dark.png", clip=top)


def main() -> None:
    executable = shutil.which("chromium")
    if executable is None:
        raise SystemExit("chromium is not on the path")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place)
        (audit, defended), table = tutorial(folder), records(folder)
        browser = playwright.chromium.launch(executable_path=executable, args=list(QUIET))
        take_report(browser, audit)
        screenshot(opened(browser, defended), "#defences figure", "audit_defences.png")
        screenshot(opened(browser, table), "#records", "audit_records.png")
        browser.close()


if __name__ == "__main__":
    main()
