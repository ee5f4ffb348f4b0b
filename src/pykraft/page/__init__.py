"""What all HTML pages of the package share: one style sheet, and the way a template is filled."""

from pykraft.page.template import fill, style

__all__ = ["fill", "style"]
