"""What all HTML pages of the package share: one frame, one style sheet, and the way a template is filled."""

from pykraft.page.template import render_page

__all__ = ["render_page"]
