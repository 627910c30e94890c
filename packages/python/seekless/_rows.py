"""Rows of a report: a list of flat dictionaries, which pandas and polars take as they are."""


class Rows(list):
    """The rows of a report. `report` is all of its JSON, `verdict` its verdict, if it has one."""

    def __init__(self, rows, report, verdict=None):
        super().__init__(rows)
        self.report = report
        self.verdict = verdict

    def to_arrow(self):
        """The rows as a table of Arrow. It needs the package pyarrow."""
        import pyarrow

        names = list(dict.fromkeys(name for row in self for name in row))
        return pyarrow.table({name: [row.get(name) for row in self] for name in names})


def flat(value, prefix=""):
    """An object of JSON as one row: `{"ms": {"seek": 1}}` becomes `{"ms_seek": 1}`. Of a list of objects, which has no place
    in a row, the row has the length."""
    row = {}
    for name, part in value.items():
        if isinstance(part, dict):
            row.update(flat(part, f"{prefix}{name}_"))
        elif isinstance(part, list) and any(isinstance(one, (dict, list)) for one in part):
            row[prefix + name] = len(part)
        else:
            row[prefix + name] = part
    return row
