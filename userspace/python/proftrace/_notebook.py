"""%%proftrace in notebooks."""

from __future__ import annotations

from typing import Any

from proftrace._program import Option


def options_of(line: str) -> dict[str, Option]:
    """--with-stack --sample 99Hz as with_stack=True, sample="99Hz"."""
    import shlex

    options: dict[str, Option] = {}
    name = ""
    for word in shlex.split(line):
        if word.startswith("--"):
            name, has_value, value = word[2:].partition("=")
            options[name] = value if has_value else True
        elif name and options[name] is True:
            options[name] = word
        else:
            raise ValueError(f"%%proftrace takes options of 'proftrace record' alone; {word!r} is none")
    return options


def load_ipython_extension(shell: Any) -> None:
    """%load_ext proftrace. The result of a cell's recording is shown, and kept as `proftrace_result`."""

    def magic(line: str, cell: str) -> None:
        from IPython.display import display

        from proftrace._recording import record

        with record(**options_of(line)) as recording:
            done = shell.run_cell(cell)
        shell.push({"proftrace_result": recording.result})
        display(recording.result)
        done.raise_error()

    shell.register_magic_function(magic, "cell", "proftrace")
