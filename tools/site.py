"""Hooks of the documentation site: formulas become MathML, and a page that would look broken fails the build.

MathML is drawn by the browser itself: no script, no font, no request to another machine.
"""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
CODE = re.compile(r"<(pre|code|math|script|style)\b.*?</\1>", re.DOTALL)
IMAGE = re.compile(r"<img\b[^>]*>")
REMOTE = "https://unpkg.com/iframe-worker/shim"
ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&"}


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page, once its Markdown is HTML."""
    html = INLINE.sub(lambda formula: mathml(formula[1], "inline"), html)
    html = DISPLAY.sub(lambda formula: mathml(formula[1], "block"), html)
    if problems := faults(html):
        raise PluginError(f"{page.file.src_uri}: {'; '.join(problems)}")
    return html


def on_config(config: Any, **_: Any) -> Any:
    """Without the address of a repository there is nothing to edit."""
    if not config.repo_url:
        config.edit_uri = None
    return config


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The theme fetches a script for search from elsewhere; ours lies in the site."""
    return output.replace(REMOTE, "../" * page.url.count("/") + "assets/worker.js")


def on_post_template(output_content: str, **_: Any) -> str:
    return output_content.replace(REMOTE, "/assets/worker.js")


def mathml(tex: str, display: str) -> str:
    for entity, sign in ENTITIES.items():
        tex = tex.replace(entity, sign)
    return str(convert(tex.strip(), display=display))


def faults(html: str) -> list[str]:
    r"""What a reader would see as broken.

    >>> faults('<p>costs $x^2$</p>'), faults('<p><code>$ make demo</code></p>')
    (['a formula was left as text: $x^2$</p>'], [])
    >>> faults('<img src="a.png" alt="">'), faults('<img alt="Noise of a count" src="a.png">')
    (['a picture without alt text: <img src="a.png" alt="">'], [])
    """
    prose = CODE.sub("", html)
    raw = [f"a formula was left as text: {tail[0]}" for tail in re.finditer(r"\$.{0,40}", prose)]
    silent = [
        f"a picture without alt text: {image}"
        for image in IMAGE.findall(prose)
        if not re.search(r'\balt="[^"]+"', image)
    ]
    return raw + silent
