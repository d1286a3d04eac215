"""What the jobs share whose tables follow ``records``: one plan, one way to commit. ``decode`` and ``latest`` make the
rows.
"""
