"""The report: data, figures, one self-contained page."""
