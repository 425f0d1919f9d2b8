"""``muntin reset-watermark``: sets back the watermark of a stopped query."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.checkpoints import StoppedCheckpoint, resolve_folder, session_for
from muntin.cli.console import print_text, report_errors
from muntin.cli.pipelines import Conf


def set_watermark_back(
    checkpoint: StoppedCheckpoint,
    to: Annotated[
        str, typer.Option(help="New watermark, such as 2026-01-01T09:10. Without a zone it is UTC.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would change, and change nothing.")
    ] = False,
    conf: Conf = None,
) -> None:
    """Set back the watermark, after a message with a wrong time moved it too far.

    Until it is set back, messages with the right time are rejected as late. Windows that
    had closed and began before the new watermark stay closed; all others accept
    messages again.
    """
    from muntin.dataframe.reset import reset_watermark as reset
    from muntin.hosts.local.state import is_local_checkpoint

    console, folder = Console(), resolve_folder(checkpoint)
    if is_local_checkpoint(folder):
        with report_errors():
            outcome = reset(folder, to=to, dry_run=dry_run)
    else:
        doing = "Reading the state" if dry_run else "Writing the state"
        with session_for("reset-watermark", checkpoint, console, doing, conf) as spark:
            outcome = reset(folder, to=to, dry_run=dry_run, spark=spark)
    for line in outcome.lines():
        print_text(console, line)
    last = "nothing was changed" if dry_run else f"start the query from {checkpoint}"
    print_text(console, f"batch {outcome.batch} is the last one; {last}")
