"""What commands print: lines, columns, side files."""
