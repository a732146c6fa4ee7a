"""One self-contained HTML file about a run: reads the tables of findings and never recomputes."""

from foible.report.write import write_report

__all__ = ["write_report"]
