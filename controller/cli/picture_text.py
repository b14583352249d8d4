"""How large words are in a picture, before matplotlib has drawn them, and which shade they have."""

INK, FAINT = "#1d2733", "#66717d"
# The width of an average letter of the default font relative to its size.
_LETTER_WIDTH = 0.62


def text_width(words: str, size: float) -> float:
    """About how wide the words are, inches; matplotlib knows exactly only once it has drawn them."""
    return len(words) * _LETTER_WIDTH * size / 72


def size_to_fit(words: str, width: float, largest: float) -> float:
    """The font size in points at which the words take at most `width` inches."""
    return min(largest, 72 * width / (_LETTER_WIDTH * max(len(words), 1)))
