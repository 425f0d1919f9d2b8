"""Messages to panes: the pane of every time, and the panes of every window, in columns."""

from __future__ import annotations

import polars as pl

from muntin.model.windows import Windows


def pane_of(time: pl.Expr, windows: Windows) -> pl.Expr:
    """The pane of each time (microseconds)."""
    shifted = time - windows.origin if windows.origin else time
    slot = shifted.floordiv(windows.slide)
    if not windows.remainder:
        return slot
    within = shifted - slot * windows.slide
    return 2 * slot + (within >= windows.remainder).cast(pl.Int64)


def first_window(pane: pl.Expr, windows: Windows) -> pl.Expr:
    """The earliest window that contains each pane."""
    return (pane - windows.panes_per_window + windows.panes_per_slide).floordiv(
        windows.panes_per_slide
    )


def last_window(pane: pl.Expr, windows: Windows) -> pl.Expr:
    """The latest window that contains each pane."""
    return pane.floordiv(windows.panes_per_slide)


def window_start(window: pl.Expr, windows: Windows) -> pl.Expr:
    """Where each window starts (microseconds)."""
    return window * windows.slide + windows.origin


def closed_before(windows: Windows, watermark: int | None, grace: int) -> int | None:
    """The first pane that still belongs to some open window; earlier panes take nothing more."""
    if watermark is None:
        return None
    return windows.first_pane(windows.ended(watermark - grace) + 1)
