"""The prompt of the SQL shell: history, completion, and lines until a semicolon."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muntin.model.errors import MissingExtraError

try:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings
except ImportError as error:
    raise MissingExtraError("the SQL shell", "shell") from error

if TYPE_CHECKING:
    from muntin.cli.shell import Shell

WORDS = (
    "SELECT", "DISTINCT", "FROM", "WHERE", "GROUP BY", "HAVING", "AS", "CREATE TABLE", "WITH",
    "CREATE VIEW", "SET", "EXPLAIN", "TABLE(", "TUMBLE(", "HOP(", "CUMULATE(", "SESSION(",
    "DESCRIPTOR(", "INTERVAL", "SECOND", "MINUTE", "HOUR", "DAY", "ROWS", "window_start",
    "window_end", "WATERMARK", "WATERMARK FOR", "DELAY OF", "EMIT", "EARLY EVERY", "LATE EVERY",
    "GRACE", "RETAIN", "DELTAS", "ON CLOSE", "CHANGES", "OVER (", "PARTITION BY", "ORDER BY",
    "RANGE", "PRECEDING", "JOIN", "ON", "connector", "path", "tables", "help", "exit",
)  # fmt: skip


class SqlCompleter(Completer):
    """Completes SQL keywords, aggregates, and the names that were defined."""

    def __init__(self, names: Callable[[], list[str]]) -> None:
        from muntin.sql.aggregates import AGGREGATE_NAMES

        self.names = names
        self._fixed = [*WORDS, *(f"{name.lower()}(" for name in AGGREGATE_NAMES)]

    def get_completions(self, document: Any, complete_event: Any) -> Iterable[Completion]:
        """Yield completions of the word before the cursor."""
        begun = document.get_word_before_cursor(WORD=False)
        if not begun.strip():
            return
        for word in [*self.names(), *self._fixed]:
            if word.lower().startswith(begun.lower()) and word.lower() != begun.lower():
                yield Completion(word, start_position=-len(begun))


def is_complete(text: str) -> bool:
    """Return whether a text is a complete statement or a command of the shell."""
    bare = text.strip().lower()
    is_command = bare in ("", "exit", "quit", "help", "tables", "show tables", "\\q")
    return bare.endswith(";") or is_command or bare.startswith(("describe ", "desc "))


def make_prompt(shell: Shell) -> Callable[[], str]:
    """Return a function that prompts for a statement."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: Any) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    session: PromptSession[str] = PromptSession(
        "sql> ",
        history=FileHistory(str(Path.home() / ".muntin_history")),
        completer=SqlCompleter(lambda: shell.names + shell.columns),
        complete_while_typing=False,
        multiline=True,
        key_bindings=keys,
        prompt_continuation="...> ",
    )
    return session.prompt
