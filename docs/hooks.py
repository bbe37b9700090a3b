"""What mkdocs.yml cannot say: records of decisions, files of the repository, formulas without a network."""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
# Where the site keeps files that pages link to and that are not pages: records of benchmarks, examples.
REPOSITORY = "repository"
LINK = re.compile(r"\]\(((?:\.\./)+[^)#]+)\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: Any) -> Any:
    """List the records of decisions, so that a new one is on the site without being named twice."""
    records = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    config.nav.append({"Decisions": [f"decisions/{name}" for name in records]})
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Take the files that a page links to beside docs/ into the site, and lead its links there."""
    folder = posixpath.dirname(page.file.src_uri)

    def led(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        if not target.startswith("../"):
            return match[0]
        source = ROOT / target.removeprefix("../")
        # Browsers show text, and offer to store what they take for a program.
        uri = f"{REPOSITORY}/{target.removeprefix('../')}" + ".txt" * (source.suffix in (".py", ".md"))
        if source.is_file() and files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, abs_src_path=str(source)))
        return f"]({posixpath.relpath(uri, folder or '.')})"

    return LINK.sub(led, markdown)


def on_page_content(html_text: str, **_: Any) -> str:
    """Turn formulas into MathML, which browsers show by themselves."""
    return FORMULA.sub(_formula, html_text)


def _formula(match: re.Match[str]) -> str:
    display = "block" if match[1] == "div" else "inline"
    return convert(html.unescape(match[2]).strip(), display=display)
