"""Why `skillbus eval` fails, beside what `skillbus.cli.errors` has.

```text
CliError
└── CannotEvaluateError  what is measured does not start, refuses a tool, or does not answer
```
"""

from skillbus.cli.errors import CliError


class CannotEvaluateError(CliError):
    """Nothing was measured."""

    title = "Search cannot be measured"
    code = "cannot_evaluate"
