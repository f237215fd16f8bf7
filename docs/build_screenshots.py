"""Takes the screenshots of the documentation: audits the tutorial's model and a table, and photographs the pages.

    python docs/build_screenshots.py

Needs Chromium on the path, and playwright. Everything shown is scikit-learn's: digits and diabetes records.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).resolve().parent
IMAGES = DOCS / "images"
# Options of Chromium where there is no display, no user and no network.
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
EXHUME = (sys.executable, "-c", "from exhume.cli import main; main()")


def tutorial(folder: Path) -> Path:
    """The files and commands of docs/audit.md, up to its first report, with defences measured besides."""
    for block in re.findall(r"^```python\n(.*?)^```", (DOCS / "audit.md").read_text(), flags=re.M | re.S):
        if named := re.match(r"# (\w+\.py)\n", block):
            (folder / named.group(1)).write_text(block)
    subprocess.run([sys.executable, "train.py"], cwd=folder, check=True)
    words = (
        "audit --model mymodel.py:build --weights after.safetensors --initial before.safetensors --input-shape 1,8,8 "
        "--know pixel_mean=0.3 --know pixel_std=0.38 --truth images.npy --labels classes.npy --defence rounding "
        "--defence noise --defence pruning --name tutorial --out audit"
    )
    subprocess.run([*EXHUME, *words.split()], cwd=folder, check=True)
    return folder / "audit" / "report.html"


def records(folder: Path) -> Path:
    """A report on diabetes records."""
    train = "train rf --data diabetes --samples 6 --ratio 40 --activation gelu --out records"
    subprocess.run([*EXHUME, *train.split()], cwd=folder, check=True)
    audit = "audit --run records --name diabetes --out table"
    subprocess.run([*EXHUME, *audit.split()], cwd=folder, check=True)
    return folder / "table" / "report.html"


def photograph(page: Page, element: str, name: str) -> None:
    """One element of the open page."""
    page.locator(element).first.screenshot(path=IMAGES / name)


def main() -> None:
    executable = shutil.which("chromium")
    if executable is None:
        raise SystemExit("chromium is not on the path")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place)
        audit, table = tutorial(folder), records(folder)
        browser = playwright.chromium.launch(executable_path=executable, args=list(QUIET))
        page = browser.new_page(viewport={"width": 1180, "height": 1000})
        page.goto(audit.as_uri())
        page.screenshot(path=IMAGES / "audit_report.png", clip={"x": 0, "y": 0, "width": 1180, "height": 1000})
        photograph(page, "#gallery", "audit_gallery.png")
        photograph(page, "#defences", "audit_defences.png")
        dark = browser.new_page(viewport={"width": 1180, "height": 1000}, color_scheme="dark")
        dark.goto(audit.as_uri())
        dark.screenshot(path=IMAGES / "audit_dark.png", clip={"x": 0, "y": 0, "width": 1180, "height": 1000})
        page.goto(table.as_uri())
        photograph(page, "#records", "audit_records.png")
        browser.close()


if __name__ == "__main__":
    main()
