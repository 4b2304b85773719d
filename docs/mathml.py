"""Build hook of the documentation: every formula becomes MathML, which browsers draw themselves.

The Markdown extension `arithmatex` marks formulas in pages and docstrings alike; this replaces
each mark when its page is built, so a finished page needs neither a script nor the network.
"""

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)


def on_page_content(content: str, **_) -> str:
    """Replace each marked formula in a page's HTML."""
    return FORMULA.sub(_mathml, content)


def _mathml(match: re.Match) -> str:
    display = "block" if match["tag"] == "div" else "inline"
    mathml = convert(html.unescape(match["tex"]).strip(), display=display)
    # The converter writes "is distributed as" as a keyboard tilde, which sits too high.
    return mathml.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")
