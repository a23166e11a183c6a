"""Errors are one line, whatever they quote."""

from glocalfair.errors import GlocalfairError, invalid


def test_line_breaks_in_quoted_values_do_not_break_the_line() -> None:
    assert str(GlocalfairError("the label ' \n' has\r\none value")) == r"the label ' \n' has\none value"
    assert "\n" not in str(invalid("a\nb", "short", "c\nd"))
