"""The page that lists every option of SQL's ``WITH`` and of TOML."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import muntin as mt
from muntin.model.reader_options import READERS, ReaderOption
from muntin.model.table_options import options_of
from muntin.pipelines import form

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "options.md"
_OTHERS = ("to_kafka", "to_memory")
_HEAD = """# Options of tables and files

What `CREATE TABLE … WITH (…)` and `[tables.…]` of a file take. An option that isn't listed is
refused by its name, with the nearest one that is. The options of `kafka` are on
[its page](../kafka.md).

"""
_KINDS = {"parse_boolean": "`true` or `false`", "parse_whole": "a whole number",
          "parse_number": "a number", "accept_any": "text",
          "check_choice": "one of a few words"}  # fmt: skip
_WHEN = {"always": "", "stream": "streams", "batch": "tables read once",
         "no columns": "tables without declared columns"}  # fmt: skip


def listing() -> str:
    """The page."""
    parts = [_HEAD, "## Sinks\n\n| connector | option | default |\n| --- | --- | --- |\n"]
    for name in sorted(one for one in dir(mt) if one.startswith("to_") and one not in _OTHERS):
        function = getattr(mt, name)
        for option in options_of(function):
            default = signature(function).parameters[option].default
            needed = default is signature(function).empty
            said = "the table's name" if option == "table" else "required" if needed else ""
            shown = said or ("" if default in (None, ()) else f"`{default}`")
            parts.append(f"| `{name.removeprefix('to_')}` | `{option}` | {shown} |\n")
    parts.append("\n## Sources\n\n| connector | option | takes | has an effect on |\n")
    parts.append("| --- | --- | --- | --- |\n")
    for connector, options in READERS.items():
        parts += [_row(connector, option) for option in options]
    parts.append("\n## Keys of a file in TOML\n\n| part | key | meaning |\n| --- | --- | --- |\n")
    for part, model in (("file", form.PipelineForm), ("tables", form.TableForm),
                        ("queries", form.QueryForm), ("windows", form.WindowsForm),
                        ("early, late", form.PolicyForm), ("full", form.FullForm),
                        ("fill", form.FillForm)):  # fmt: skip
        for name, field in model.model_fields.items():
            parts.append(f"| {part} | `{field.alias or name}` | {field.description or ''} |\n")
    return "".join(parts)


def _row(connector: str, option: ReaderOption) -> str:
    kind = _KINDS[option.convert.__name__] + (", required" if option.required else "")
    return f"| `{connector}` | `{option.name}` | {kind} | {_WHEN[option.when]} |\n"


if __name__ == "__main__":
    PAGE.write_text(listing())
