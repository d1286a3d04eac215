"""Schemas of any format become programs: nodes are numbered scope by scope."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

from logcore.columns.kernels.parsing.parsing_frames import FIELD, FIELD_NODE, NodeKind
from logcore.values.blocks.program import Node, Program

MOST_NODES = 2000
"""Nodes of a program; schemas with more have the plain way alone."""

Shape = TypeVar("Shape")


class UnknownToKernel(Exception):
    """The kernel does not know a part of a schema."""


@dataclass(slots=True)
class ProgramBuilder(ABC, Generic[Shape]):
    """Builds one program. A format says in :meth:`node` what its parts become."""

    nodes: list[Node] = field(default_factory=list)
    fields: list[int] = field(default_factory=list)
    names: bytearray = field(default_factory=bytearray)
    scopes: list[tuple[int, int]] = field(default_factory=list)
    first_fields: dict[int, int] = field(default_factory=dict)
    waiting: list[tuple[Node, Shape]] = field(default_factory=list)
    """Lists whose items are numbered later: each list begins a scope."""

    @abstractmethod
    def node(self, shape: Shape, scope: int) -> Node:
        """Add a part of the schema with all that is in the same scope.

        Raises:
            UnknownToKernel: The kernel does not know it.
        """

    def program(self, shape: Shape) -> Program | None:
        """Return the program of a schema; None if it has parts that the kernel does not know."""
        try:
            root = self._scope(shape)
            while self.waiting:
                node, item = self.waiting.pop(0)
                node.item_scope = len(self.scopes)
                node.children.append(self._scope(item))
        except UnknownToKernel:
            return None
        fields = np.array(self.fields or [0], np.int64)
        names = np.frombuffer(bytes(self.names) or b"\0", np.uint8)
        return Program(root, tuple(self.nodes), fields, names, tuple(self.scopes), self.first_fields)

    def added(self, kind: NodeKind, nullable: int, scope: int) -> Node:
        """Add a node without children.

        Raises:
            UnknownToKernel: There are too many.
        """
        if len(self.nodes) >= MOST_NODES:
            raise UnknownToKernel
        node = Node(len(self.nodes), kind, nullable, scope, after=len(self.nodes) + 1)
        self.nodes.append(node)
        return node

    def listed(self, item: Shape, nullable: int, scope: int) -> Node:
        """Add a list; its items are numbered later."""
        node = self.added(NodeKind.LIST, nullable, scope)
        self.waiting.append((node, item))
        return node

    def struct(self, parts: Sequence[Shape], nullable: int, scope: int) -> Node:
        """Add a struct with its fields; the format completes their entries, from :meth:`entry` on."""
        node = self.added(NodeKind.STRUCT, nullable, scope)
        self.first_fields[node.number] = len(self.fields) // FIELD
        self.fields += [0] * (FIELD * len(parts))
        for at, part in enumerate(parts):
            child = self.node(part, scope)
            node.children.append(child)
            self.fields[self.entry(node, at) + FIELD_NODE] = child.number
        node.after = len(self.nodes)
        return node

    def entry(self, node: Node, at: int) -> int:
        """Return where the entry of a struct's field begins in ``fields``."""
        return (self.first_fields[node.number] + at) * FIELD

    def _scope(self, shape: Shape) -> Node:
        first, number = len(self.nodes), len(self.scopes)
        self.scopes.append((first, first))
        root = self.node(shape, number)
        self.scopes[number] = (first, len(self.nodes))
        return root
