"""The public API: logs opened by their paths, and what can be read from them. `import logcore` offers all of it."""
